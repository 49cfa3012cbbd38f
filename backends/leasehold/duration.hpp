// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace leasehold {

/// Durations of options and of the store contract.
using duration = std::chrono::microseconds;

/// Longest duration that any option accepts, so that now + ttl never
/// overflows: 100 years of 365 days.
inline constexpr duration max_duration = std::chrono::hours{24 * 365 * 100};

/// Reads `250ms`, `30s`, `2m`, `1h30m`, `1.5s`, `7d`, `100us`. One grammar for
/// command line and YAML: digits with a unit each, largest unit first, no
/// blanks, no sign, no bare number except `0`. Returns nothing for anything
/// else and for values beyond `max_duration`.
std::optional<duration> parse_duration(std::string_view text);

/// What parse_duration accepts, for error messages.
inline constexpr std::string_view duration_hint
  = "a duration such as 250ms, 30s, 2m or 1h30m";

/// The shortest text that parse_duration reads back to the same value.
std::string format_duration(duration x);

/// A duration for people, rounded to at most two units: `1h3m`, `4.2s`, `20ms`.
std::string approximate(duration x);

/// Reads `4096`, `64KiB`, `16MiB`, `1GiB`, `1kB`, `1MB`.
std::optional<std::uint64_t> parse_size(std::string_view text);

/// Microseconds since the Unix epoch as RFC 3339 in UTC with milliseconds.
std::string rfc3339(std::int64_t epoch_us);

} // namespace leasehold
