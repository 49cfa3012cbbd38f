// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/backend/open.hpp"
#include "leasehold/internal/postgres_connection.hpp"
#include "leasehold/internal/schema.hpp"

#include <cstddef>
#include <string>

namespace leasehold::internal {

struct postgres_options {
  connection_options connection;
  table_name table;
  std::size_t max_state_bytes = default_max_state_bytes;

  /// The URL for messages.
  std::string display;
};

backend::store_ptr make_postgres_store(const postgres_options& options);

backend::failure check_postgres_schema(const postgres_options& options);

backend::failure apply_postgres_schema(const postgres_options& options);

} // namespace leasehold::internal
