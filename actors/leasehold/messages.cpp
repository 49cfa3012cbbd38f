// SPDX-License-Identifier: Apache-2.0
#include "leasehold/messages.hpp"

#include "leasehold/internal/enum_names.hpp"

namespace leasehold {

namespace {

constexpr internal::enum_names<3> stop_modes{"stop_mode",
                                             {"drain", "stop", "now"}};

} // namespace

std::string to_string(stop_mode x) {
  return stop_modes.to_string(x);
}

bool from_string(std::string_view name, stop_mode& x) {
  return stop_modes.from_string(name, x);
}

bool from_integer(std::uint8_t raw, stop_mode& x) {
  return stop_modes.from_integer(raw, x);
}

} // namespace leasehold

namespace leasehold::internal {

namespace {

constexpr enum_names<8> phases{"slot_phase",
                               {"idle", "acquiring", "running", "stopping",
                                "backoff", "retired", "dead", "stopped"}};

} // namespace

std::string to_string(slot_phase x) {
  return phases.to_string(x);
}

bool from_string(std::string_view name, slot_phase& x) {
  return phases.from_string(name, x);
}

bool from_integer(std::uint8_t raw, slot_phase& x) {
  return phases.from_integer(raw, x);
}

} // namespace leasehold::internal
