// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/backend/open.hpp"
#include "leasehold/internal/mysql_connection.hpp"
#include "leasehold/internal/schema.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace leasehold::internal {

struct mysql_options {
  mysql_connection_options connection;
  table_name table;
  std::size_t max_state_bytes = default_max_state_bytes;

  /// The URL for messages.
  std::string display;
};

backend::store_ptr make_mysql_store(const mysql_options& options);

std::vector<std::string> mysql_schema_statements(const table_name& table);

/// Also fails if the counter is behind the rows, as after a restored backup.
backend::failure check_mysql_schema(const mysql_options& options);

/// Also moves a counter forward that is behind the rows.
backend::failure apply_mysql_schema(const mysql_options& options);

} // namespace leasehold::internal
