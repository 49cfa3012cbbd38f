// SPDX-License-Identifier: Apache-2.0
#include "leasehold/exit_code.hpp"

namespace leasehold::app {

int exit_code_of(ec code, ec also) noexcept {
  if (also == ec::schema_missing || also == ec::not_a_store)
    return exit_code::bad_data;
  if (also == ec::unavailable)
    return exit_code::store_unavailable;
  if (matches(code, ec::config_invalid) || also == ec::config_invalid)
    return exit_code::bad_config;
  switch (code) {
    case ec::none:
      return exit_code::ok;
    case ec::fenced:
    case ec::lease_expired:
    case ec::lease_window_exhausted:
      return exit_code::lost;
    case ec::lease_held:
      return exit_code::not_acquired;
    case ec::unavailable:
    case ec::unknown_outcome:
    case ec::deadline_exceeded:
      return exit_code::store_unavailable;
    case ec::store_failed:
      return exit_code::refused;
    case ec::invalid_argument:
      return exit_code::usage;
    case ec::state_too_large:
    case ec::state_unreadable:
    case ec::schema_missing:
    case ec::not_a_store:
      return exit_code::bad_data;
    default:
      return exit_code::no;
  }
}

} // namespace leasehold::app
