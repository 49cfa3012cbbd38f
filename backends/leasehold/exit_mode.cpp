// SPDX-License-Identifier: Apache-2.0
#include "leasehold/exit_mode.hpp"

#include <array>

namespace leasehold {

namespace {

constexpr std::array<std::string_view, 5> names{
  "none", "finished", "abandoned", "retired", "expired"};

} // namespace

std::string to_string(exit_mode mode) {
  auto index = static_cast<std::size_t>(mode);
  if (index < names.size())
    return std::string{names[index]};
  return "exit_mode(" + std::to_string(index) + ")";
}

bool from_string(std::string_view name, exit_mode& mode) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) {
      mode = static_cast<exit_mode>(i);
      return true;
    }
  }
  return false;
}

bool from_integer(std::uint8_t raw, exit_mode& mode) {
  if (raw >= names.size())
    return false;
  mode = static_cast<exit_mode>(raw);
  return true;
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
