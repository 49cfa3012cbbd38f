// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace leasehold::internal {

/// The three functions that each enum of ours has, over its names in the order
/// of its values, which count from zero.
template <std::size_t N>
struct enum_names {
  std::string_view type;
  std::array<std::string_view, N> names;

  template <class E>
  std::string to_string(E x) const {
    auto index = static_cast<std::size_t>(x);
    if (index < N)
      return std::string{names[index]};
    return std::string{type} + "(" + std::to_string(index) + ")";
  }

  template <class E>
  bool from_string(std::string_view name, E& x) const {
    for (std::size_t i = 0; i < N; ++i) {
      if (names[i] == name) {
        x = static_cast<E>(i);
        return true;
      }
    }
    return false;
  }

  template <class E>
  bool from_integer(std::uint8_t raw, E& x) const {
    if (raw >= N)
      return false;
    x = static_cast<E>(raw);
    return true;
  }
};

} // namespace leasehold::internal
