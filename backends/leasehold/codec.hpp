// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/error.hpp"

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

/// From values to checkpoint bytes and back.
///
///     auto at = decode<progress>(job.found().state, codec::json{});
///     if (!at)
///       return failed_for_good(at.error().detail);
///     ...
///     auto bytes = encode(*at, codec::json{});
///
/// A codec is any object that models `codec_for`; `codec::raw` is here,
/// `codec::json` and `codec::binary` have headers of their own.
namespace leasehold {

/// What the supplied codecs report. `detail` is for people and never holds
/// bytes of the state: it may end up in a log.
struct codec_error {
  /// state_unreadable or invalid_argument.
  ec code = ec::none;
  std::string detail;

  friend bool operator==(const codec_error&, const codec_error&) = default;
};

/// A value or the reason why there is none.
template <class T>
class codec_result {
public:
  codec_result(T value) : content_(std::in_place_index<0>, std::move(value)) {
    // nop
  }

  codec_result(codec_error error)
    : content_(std::in_place_index<1>, std::move(error)) {
    // nop
  }

  explicit operator bool() const noexcept {
    return content_.index() == 0;
  }

  /// The value; throws std::bad_variant_access if there is none.
  T& operator*() {
    return std::get<0>(content_);
  }

  const T& operator*() const {
    return std::get<0>(content_);
  }

  T* operator->() {
    return &**this;
  }

  const T* operator->() const {
    return &**this;
  }

  /// The reason; throws std::bad_variant_access if there is a value.
  const codec_error& error() const {
    return std::get<1>(content_);
  }

private:
  std::variant<T, codec_error> content_;
};

/// `R` is a value of type `T` or an error, as codec_result, caf::expected and
/// std::expected are.
template <class R, class T>
concept codec_outcome = requires(R r) {
  static_cast<bool>(r);
  { *r } -> std::convertible_to<T>;
  r.error();
  requires std::constructible_from<R, T>;
};

/// A codec for values of type `T`. `decode` takes the bytes as they were
/// stored, which may be damaged or another program's. Both members may be
/// called from several threads at once.
template <class C, class T>
concept codec_for
  = requires(const C& codec, const T& value, std::string_view bytes) {
  { codec.encode(value) } -> codec_outcome<std::string>;
  { codec.template decode<T>(bytes) } -> codec_outcome<T>;
};

/// What `state` holds, or a default constructed value if there is no state; the
/// codec is not asked then. Its errors and exceptions come back unchanged.
template <class T, codec_for<T> Codec>
auto decode(const std::optional<std::string>& state, const Codec& codec) {
  using result = decltype(codec.template decode<T>(std::string_view{}));
  if (!state)
    return result{T{}};
  return codec.template decode<T>(std::string_view{*state});
}

/// The bytes to store for `value`. The codec's errors and exceptions come back
/// unchanged. No bytes at all are the same as no state to a store.
template <class T, codec_for<T> Codec>
auto encode(const T& value, const Codec& codec) {
  return codec.encode(value);
}

namespace codec {

/// Strings, as they are.
struct raw {
  codec_result<std::string> encode(const std::string& value) const {
    return value;
  }

  template <class T>
  requires std::same_as<T, std::string> codec_result<T>
  decode(std::string_view bytes)
  const {
    return std::string{bytes};
  }
};

} // namespace codec

} // namespace leasehold
