// SPDX-License-Identifier: Apache-2.0
#include "leasehold/identifier.hpp"

#include <cstdint>

namespace leasehold {

namespace {

// Length of the UTF-8 sequence at the start of `text`, or 0 if it is malformed
// (overlong forms, surrogates and values beyond U+10FFFF included).
std::size_t utf8_length(std::string_view text) noexcept {
  auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  auto lead = byte(0);
  if (lead < 0x80)
    return 1;
  std::size_t length = 0;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0)
      low = 0xA0;
    if (lead == 0xED)
      high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0)
      low = 0x90;
    if (lead == 0xF4)
      high = 0x8F;
  } else {
    return 0;
  }
  if (text.size() < length || byte(1) < low || byte(1) > high)
    return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80)
      return 0;
  return length;
}

} // namespace

std::string_view identifier_problem(std::string_view id) noexcept {
  if (id.empty())
    return "is empty";
  if (id.size() > max_identifier_bytes)
    return "is longer than 512 bytes";
  while (!id.empty()) {
    if (id.front() == '\0')
      return "contains a NUL byte";
    auto length = utf8_length(id);
    if (length == 0)
      return "is not valid UTF-8";
    id.remove_prefix(length);
  }
  return {};
}

std::string printable(std::string_view id) {
  constexpr std::size_t limit = 64;
  constexpr std::string_view hex = "0123456789abcdef";
  std::string result = "\"";
  std::size_t shown = 0;
  while (!id.empty() && shown < limit) {
    auto length = utf8_length(id);
    auto byte = static_cast<std::uint8_t>(id.front());
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      result += "\\x";
      result += hex[byte >> 4];
      result += hex[byte & 0xF];
      length = 1;
    } else {
      if (byte == '"' || byte == '\\')
        result += '\\';
      result += id.substr(0, length);
    }
    id.remove_prefix(length);
    ++shown;
  }
  if (!id.empty())
    result += "...";
  result += '"';
  return result;
}

} // namespace leasehold
