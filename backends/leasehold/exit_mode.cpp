// SPDX-License-Identifier: Apache-2.0
#include "leasehold/exit_mode.hpp"

#include "leasehold/internal/enum_names.hpp"

namespace leasehold {

namespace {

constexpr internal::enum_names<5> modes{
  "exit_mode", {"none", "finished", "abandoned", "retired", "expired"}};

} // namespace

std::string to_string(exit_mode mode) {
  return modes.to_string(mode);
}

bool from_string(std::string_view name, exit_mode& mode) {
  return modes.from_string(name, mode);
}

bool from_integer(std::uint8_t raw, exit_mode& mode) {
  return modes.from_integer(raw, mode);
}

exit_mode exit_mode_from_store(std::string_view name) {
  auto mode = exit_mode::expired;
  from_string(name, mode);
  return mode;
}

bool is_declarable(exit_mode mode) noexcept {
  return mode == exit_mode::finished || mode == exit_mode::abandoned
         || mode == exit_mode::retired;
}

} // namespace leasehold
