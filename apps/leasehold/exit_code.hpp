// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/error.hpp"

namespace leasehold::app {

/// What the program exits with. Scripts rely on these; see the README.
namespace exit_code {

inline constexpr int ok = 0;
/// The answer is "no", or a pool ended without success.
inline constexpr int no = 1;
inline constexpr int usage = 64;
inline constexpr int bad_data = 65;
/// Unreachable or silent; the outcome may be unknown.
inline constexpr int store_unavailable = 69;
inline constexpr int bug = 70;
/// Standard input or output failed, for example because a disk is full.
inline constexpr int io_failed = 74;
inline constexpr int not_acquired = 75;
inline constexpr int refused = 77;
inline constexpr int bad_config = 78;
inline constexpr int lost = 79;

} // namespace exit_code

/// The exit code for a failed store call or operation.
int exit_code_of(ec code, ec also = ec::none) noexcept;

} // namespace leasehold::app
