// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/caf.hpp"
#include "leasehold/codec.hpp"

#include <string>
#include <string_view>

namespace leasehold::codec {

namespace internal {

/// A line of format and checksum, then `payload`.
std::string seal(std::string_view payload);

/// The payload of what `seal` made.
codec_result<std::string_view> unseal(std::string_view bytes);

/// Why sealed bytes do not make the value that was asked for.
codec_error misfit();

} // namespace internal

/// CAF's binary format, for every type that CAF can inspect; no type ID is
/// needed. Small and fast, but not for every purpose:
///  - it holds neither names nor versions, so a type that changed does not read
///    what it stored before: put a version number into it, or use JSON,
///  - CAF 0.17 and CAF 1.x do not read each other's states,
///  - handles of actors are not data and cannot be stored.
///
/// A checksum goes with the bytes, since CAF's reader trusts the lengths that
/// it finds in them.
struct binary {
  template <class T>
  codec_result<std::string> encode(const T& value) const {
    std::string payload;
    if (!to_binary(value, payload))
      return codec_error{ec::invalid_argument,
                         "CAF cannot write the value: "
                         "does it hold a handle of an actor?"};
    return internal::seal(payload);
  }

  template <class T>
  codec_result<T> decode(std::string_view bytes) const {
    auto payload = internal::unseal(bytes);
    if (!payload)
      return payload.error();
    T value{};
    if (!from_binary(*payload, value))
      return internal::misfit();
    return value;
  }
};

} // namespace leasehold::codec
