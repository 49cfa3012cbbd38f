// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/base64.hpp"

#include <array>
#include <cstdint>

namespace leasehold::process {

namespace {

constexpr std::string_view alphabet
  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::uint8_t invalid = 0xff;

constexpr auto make_values() {
  std::array<std::uint8_t, 256> result{};
  result.fill(invalid);
  for (std::size_t i = 0; i < alphabet.size(); ++i)
    result[static_cast<unsigned char>(alphabet[i])]
      = static_cast<std::uint8_t>(i);
  return result;
}

constexpr auto values = make_values();

std::uint8_t value_of(char c) {
  return values[static_cast<unsigned char>(c)];
}

std::uint32_t byte_at(std::string_view bytes, std::size_t at) {
  return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0u;
}

} // namespace

std::string encode_base64(std::string_view bytes) {
  std::string result;
  result.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    auto bits = byte_at(bytes, i) << 16 | byte_at(bytes, i + 1) << 8
                | byte_at(bytes, i + 2);
    for (auto shift = 18; shift >= 0; shift -= 6)
      result.push_back(alphabet[bits >> shift & 0x3f]);
  }
  auto missing = (3 - bytes.size() % 3) % 3;
  result.replace(result.size() - missing, missing, missing, '=');
  return result;
}

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0)
    return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size()
         && text[text.size() - 1 - padding] == '=')
    ++padding;
  std::string result;
  result.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    auto skipped = i + 4 == text.size() ? padding : 0;
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      auto value = j < 4 - skipped ? value_of(text[i + j]) : std::uint8_t{0};
      if (value == invalid)
        return std::nullopt;
      bits = bits << 6 | value;
    }
    if ((bits & ((1u << (8 * skipped)) - 1)) != 0)
      return std::nullopt;
    for (std::size_t j = 0; j < 3 - skipped; ++j)
      result.push_back(static_cast<char>(bits >> (16 - 8 * j) & 0xff));
  }
  return result;
}

bool is_utf8(std::string_view bytes) noexcept {
  for (std::size_t i = 0; i < bytes.size();) {
    auto lead = byte_at(bytes, i++);
    if (lead < 0x80)
      continue;
    auto more = lead >= 0xc2 && lead <= 0xdf   ? 1
                : lead >= 0xe0 && lead <= 0xef ? 2
                : lead >= 0xf0 && lead <= 0xf4 ? 3
                                               : 0;
    if (more == 0)
      return false;
    auto first = byte_at(bytes, i);
    // Overlong forms, surrogates, beyond U+10FFFF: all shown by two bytes.
    if ((lead == 0xe0 && first < 0xa0) || (lead == 0xed && first > 0x9f)
        || (lead == 0xf0 && first < 0x90) || (lead == 0xf4 && first > 0x8f))
      return false;
    for (; more > 0; --more)
      if ((byte_at(bytes, i++) & 0xc0) != 0x80)
        return false;
  }
  return true;
}

} // namespace leasehold::process
