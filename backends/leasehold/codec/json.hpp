// SPDX-License-Identifier: Apache-2.0
//
// Needs nlohmann-json 3.11 or later: link leasehold::json.
#pragma once

#include "leasehold/codec.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace leasehold::codec {

/// JSON, for every type that nlohmann-json converts, for example by
/// NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE. Exceptions of a type's own to_json and
/// from_json pass through; those of nlohmann-json become errors, without their
/// text, since that quotes what was read.
///
/// Strings must be UTF-8. NaN and infinities are written as null, which no
/// number is read from.
struct json {
  template <class T>

  requires requires(const T& x) {
    nlohmann::json(x);
  }

  codec_result<std::string> encode(const T& value) const {
    try {
      return nlohmann::json(value).dump();
    } catch (const nlohmann::json::exception& e) {
      return codec_error{ec::invalid_argument,
                         "the value cannot be written as JSON, which takes "
                         "only UTF-8 strings (nlohmann error "
                           + std::to_string(e.id) + ")"};
    }
  }

  template <class T>

  requires requires(const nlohmann::json& x) {
    x.get<T>();
  }

  codec_result<T> decode(std::string_view bytes) const {
    try {
      return nlohmann::json::parse(bytes).get<T>();
    } catch (const nlohmann::json::parse_error& e) {
      return codec_error{ec::state_unreadable,
                         "the state of " + std::to_string(bytes.size())
                           + " bytes is not JSON from byte "
                           + std::to_string(e.byte) + " on"};
    } catch (const nlohmann::json::exception& e) {
      return codec_error{ec::state_unreadable,
                         "the state is JSON, but not of the expected form "
                         "(nlohmann error "
                           + std::to_string(e.id) + ")"};
    }
  }
};

} // namespace leasehold::codec
