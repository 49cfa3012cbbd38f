// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/backend/open.hpp"
#include "leasehold/clock.hpp"
#include "leasehold/internal/schema.hpp"

#include <cstddef>
#include <string>

namespace leasehold::internal {

struct sqlite_options {
  /// Absolute; holds no double quote.
  std::string path;

  table_name table;
  duration timeout{0};
  std::size_t max_state_bytes = default_max_state_bytes;
  store_clock clock;

  /// The URL for messages.
  std::string display;
};

backend::store_ptr make_sqlite_store(const sqlite_options& options);

backend::failure check_sqlite_schema(const sqlite_options& options);

backend::failure apply_sqlite_schema(const sqlite_options& options);

} // namespace leasehold::internal
