// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace leasehold {

/// The candidate that a mistyped word was most likely meant to be; empty if
/// none is near enough (more than two typing errors are another word, as are
/// two in a short one).
std::string nearest(std::span<const std::string> candidates,
                    std::string_view typed);

} // namespace leasehold
