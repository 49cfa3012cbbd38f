// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/backend/open.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace leasehold::internal {

/// The files of backends/schema, as they were when this was built.
extern const std::string_view postgres_schema;
extern const std::string_view sqlite_schema;
extern const std::string_view mysql_schema;

/// A checked table name, in the forms in which SQL needs it.
struct table_name {
  /// Empty unless the name came with a schema.
  std::string schema;

  std::string base;

  /// As it was given.
  std::string plain() const;

  /// Quoted: `"ops"."leases"`. MySQL wants backticks.
  std::string quoted(char mark = '"') const;

  /// The quoted name of the sequence, or of the counter table.
  std::string quoted_sequence(char mark = '"') const;

  /// The name of the sequence, or of the counter table, without its schema.
  std::string sequence_base() const;
};

enum class dialect : std::uint8_t { mysql, postgres, sqlite };

/// What is wrong with a table name, or an empty string. Sets `out` if it is
/// good.
std::string parse_table_name(std::string_view text, dialect kind,
                             table_name& out);

/// What to do about a table of that name that is somebody else's.
std::string foreign_table(const table_name& table);

/// Of a check after the schema was applied: what still differs does so for
/// good, and to apply it again is no advice.
backend::failure beyond_repair(backend::failure left, const table_name& table);

/// Whether a table without that column is none of ours. Of our own, columns
/// that came later may be missing.
bool is_key_column(std::string_view name);

/// The statements of a schema file for `table`: no comments, no semicolons,
/// names quoted with `mark`.
std::vector<std::string> schema_statements(std::string_view text,
                                           const table_name& table,
                                           char mark = '"');

} // namespace leasehold::internal
