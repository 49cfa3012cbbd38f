// SPDX-License-Identifier: Apache-2.0
#include "leasehold/messages.hpp"

#include <array>

namespace leasehold::internal {

namespace {

constexpr std::array<std::string_view, 8> phase_names{
  "idle",    "acquiring", "running", "stopping",
  "backoff", "retired",   "dead",    "stopped"};

} // namespace

std::string to_string(slot_phase x) {
  auto index = static_cast<std::size_t>(x);
  return index < phase_names.size() ? std::string{phase_names[index]}
                                    : std::to_string(index);
}

bool from_string(std::string_view name, slot_phase& x) {
  for (std::size_t i = 0; i < phase_names.size(); ++i) {
    if (phase_names[i] == name) {
      x = static_cast<slot_phase>(i);
      return true;
    }
  }
  return false;
}

bool from_integer(std::uint8_t raw, slot_phase& x) {
  if (raw >= phase_names.size())
    return false;
  x = static_cast<slot_phase>(raw);
  return true;
}

} // namespace leasehold::internal
