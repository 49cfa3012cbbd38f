// SPDX-License-Identifier: Apache-2.0
#include "leasehold/internal/url.hpp"

#include <cstddef>

namespace leasehold::internal {

namespace {

// Independent of the locale, unlike <cctype>.
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

int hex_value(char c) {
  if (is_digit(c))
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

bool decode(std::string_view text, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size())
      return false;
    auto high = hex_value(text[i + 1]);
    auto low = hex_value(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0))
      return false;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

} // namespace

std::string url_scheme(std::string_view text) {
  auto colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || !is_letter(text[0]))
    return {};
  std::string result;
  for (auto c : text.substr(0, colon)) {
    if (!is_letter(c) && !is_digit(c) && c != '+' && c != '-' && c != '.')
      return {};
    result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

std::optional<url> parse_url(std::string_view text, std::string& problem) {
  auto fail = [&](std::string_view what) {
    problem = what;
    return std::nullopt;
  };
  constexpr std::string_view bad_percent
    = "holds a % that is not followed by two hex digits (write %25 for a "
      "percent sign; %00 cannot be used)";
  url result;
  result.scheme = url_scheme(text);
  if (result.scheme.empty())
    return fail("does not start with a scheme such as postgresql:");
  for (auto c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f')
      return fail("holds a control character");
  text.remove_prefix(result.scheme.size() + 1);
  if (auto hash = text.find('#'); hash != std::string_view::npos)
    return fail("holds a #; write %23");
  std::string_view query;
  if (auto mark = text.find('?'); mark != std::string_view::npos) {
    query = text.substr(mark + 1);
    text = text.substr(0, mark);
  }
  if (text.starts_with("//")) {
    result.has_authority = true;
    text.remove_prefix(2);
    auto slash = text.find('/');
    auto authority = text.substr(0, slash);
    text = slash == std::string_view::npos ? std::string_view{}
                                           : text.substr(slash);
    if (auto at = authority.rfind('@'); at != std::string_view::npos) {
      auto info = authority.substr(0, at);
      authority.remove_prefix(at + 1);
      auto colon = info.find(':');
      if (info.find('@') != std::string_view::npos)
        return fail("holds more than one @; write %40 inside a password");
      if (!decode(info.substr(0, colon), result.user.emplace()))
        return fail(bad_percent);
      if (colon != std::string_view::npos
          && !decode(info.substr(colon + 1), result.password.emplace()))
        return fail(bad_percent);
    }
    for (auto c : authority)
      if (!is_letter(c) && !is_digit(c)
          && std::string_view{"-._,:[]%"}.find(c) == std::string_view::npos)
        return fail("holds a character that cannot be part of a host; reserved "
                    "characters in a user or password are percent-encoded, and "
                    "a / in them is written %2F");
    result.hosts = authority;
    if (auto rest = std::string{text} + std::string{query};
        !authority.empty() && rest.find('@') != std::string::npos)
      return fail("holds an @ behind its host; inside a password write %2F "
                  "for /, %3F for ? and %40 for @, elsewhere %40 for @");
  }
  if (!decode(text, result.path))
    return fail(bad_percent);
  while (!query.empty()) {
    auto end = query.find('&');
    auto item = query.substr(0, end);
    query = end == std::string_view::npos ? std::string_view{}
                                          : query.substr(end + 1);
    if (item.empty())
      continue;
    auto equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return fail("holds a parameter without a value after its ?");
    auto& [key, value] = result.query.emplace_back();
    if (!decode(item.substr(0, equals), key)
        || !decode(item.substr(equals + 1), value))
      return fail(bad_percent);
  }
  return result;
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  std::string result;
  for (auto c : text) {
    if (is_letter(c) || is_digit(c)
        || std::string_view{"-._~"}.find(c) != std::string_view::npos) {
      result += c;
    } else {
      auto byte = static_cast<unsigned char>(c);
      result += '%';
      result += hex[byte >> 4];
      result += hex[byte & 0xF];
    }
  }
  return result;
}

std::string without_secret(std::string text, std::string_view secret) {
  if (secret.empty())
    return text;
  for (auto pos = text.find(secret); pos != std::string::npos;
       pos = text.find(secret, pos + 3))
    text.replace(pos, secret.size(), "***");
  return text;
}

} // namespace leasehold::internal
