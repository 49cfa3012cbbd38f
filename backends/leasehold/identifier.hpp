// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace leasehold {

/// Longest work ID and holder ID, in bytes, on every store.
inline constexpr std::size_t max_identifier_bytes = 512;

/// Default limit for the bytes of one checkpoint.
inline constexpr std::size_t default_max_state_bytes = 16u * 1024 * 1024;

/// Says what is wrong with a work ID or holder ID, or returns an empty view if
/// it is good: valid UTF-8 without NUL, 1 to 512 bytes. IDs are compared byte
/// by byte on every store: no case folding, no normalisation, no trimming.
std::string_view identifier_problem(std::string_view id) noexcept;

/// An ID fit for a message: quoted, control characters escaped, and cut to 64
/// characters so that a message stays readable.
std::string printable(std::string_view id);

} // namespace leasehold
