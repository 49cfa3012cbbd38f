// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace leasehold::process {

/// Standard alphabet, padded, no line breaks (RFC 4648, section 4).
std::string encode_base64(std::string_view bytes);

/// Accepts exactly what `encode_base64` makes: one text for each value, so no
/// blanks, no missing padding, no stray bits.
std::optional<std::string> decode_base64(std::string_view text);

bool is_utf8(std::string_view bytes) noexcept;

} // namespace leasehold::process
