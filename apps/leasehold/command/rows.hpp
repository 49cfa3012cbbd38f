// SPDX-License-Identifier: Apache-2.0
//
// How a row of the store is shown, to people and to programs.
#pragma once

#include "leasehold/backend/store.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace leasehold::app {

/// "held", "lapsed" (expired, nobody released it), "free" or "retired".
std::string_view state_of(const backend::row& x, std::int64_t now_us);

/// The fields of docs/reference/json.md; unknown values are null, never
/// absent.
nlohmann::ordered_json to_json(const backend::row& x, std::int64_t now_us);

/// Text as one line that a terminal can show: control characters and bytes
/// that are not UTF-8 are escaped.
std::string on_one_line(std::string_view text);

/// An ID as one line that can be read back: as it is, or, if that would not be
/// one line that a terminal can show, as a JSON string in its quotes. So is an
/// ID that starts with a quote.
std::string as_name(const std::string& id);

/// "1 k", "17 M": for people.
std::string short_size(std::uint64_t bytes);

} // namespace leasehold::app
