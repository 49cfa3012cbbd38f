// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// What is wrong with a table name, or an empty string. Sets `out` if it is
/// good.
std::string parse_table_name(std::string_view text, bool allow_schema,
                             table_name& out);

/// The statements of a schema file for `table`: no comments, no semicolons,
/// names quoted with `mark`.
std::vector<std::string> schema_statements(std::string_view text,
                                           const table_name& table,
                                           char mark = '"');

} // namespace leasehold::internal
