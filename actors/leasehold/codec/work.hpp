// SPDX-License-Identifier: Apache-2.0
//
// Typed progress for worker functions, one line each way.
#pragma once

#include "leasehold/caf.hpp"
#include "leasehold/codec.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/work.hpp"

#include <string>
#include <type_traits>
#include <utility>

namespace leasehold {

namespace internal {

inline caf::error as_caf_error(const codec_error& x) {
  return fail(x.code, x.detail);
}

inline caf::error as_caf_error(const caf::error& x) {
  return x;
}

} // namespace internal

/// What the predecessor stored, or a default constructed value if there is
/// nothing. Fails with the codec's error.
template <class T, codec_for<T> Codec>
caf::expected<T> restore(const prior& found, const Codec& codec) {
  auto result = decode<T>(found.state, codec);
  if (!result)
    return internal::as_caf_error(result.error());
  return std::move(*result);
}

/// Stores `value` and extends the lease, as work_context::checkpoint does with
/// bytes. If the codec fails, its error comes back and nothing was stored.
template <class T, codec_for<T> Codec>
caf::error checkpoint(work_context& job, const T& value, const Codec& codec) {
  auto bytes = encode(value, codec);
  if (!bytes)
    return internal::as_caf_error(bytes.error());
  return job.checkpoint(std::move(*bytes));
}

} // namespace leasehold
