// SPDX-License-Identifier: Apache-2.0
#include "leasehold/duration.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <ctime>

namespace leasehold {

namespace {

struct unit {
  std::string_view name;
  std::int64_t micros;
};

// Largest first: the order in which units may follow each other.
constexpr std::array units{
  unit{"d", 86'400'000'000}, unit{"h", 3'600'000'000}, unit{"m", 60'000'000},
  unit{"s", 1'000'000},      unit{"ms", 1'000},        unit{"us", 1},
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::size_t count_digits(std::string_view text) {
  std::size_t n = 0;
  while (n < text.size() && is_digit(text[n]))
    ++n;
  return n;
}

std::optional<std::int64_t> to_integer(std::string_view digits) {
  std::int64_t value = 0;
  auto [end, err]
    = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (err != std::errc{} || end != digits.data() + digits.size())
    return std::nullopt;
  return value;
}

// value.fraction of `micros`; nothing if finer than a microsecond.
std::optional<std::int64_t>
scaled(std::string_view whole, std::string_view fraction, std::int64_t micros) {
  auto value = to_integer(whole);
  if (!value || *value > max_duration.count() / micros)
    return std::nullopt;
  auto result = *value * micros;
  auto step = micros;
  for (auto digit : fraction) {
    if (step % 10 != 0)
      return std::nullopt;
    step /= 10;
    result += (digit - '0') * step;
  }
  return result;
}

} // namespace

std::optional<duration> parse_duration(std::string_view text) {
  if (text == "0")
    return duration::zero();
  std::int64_t total = 0;
  std::size_t next_unit = 0;
  if (text.empty())
    return std::nullopt;
  while (!text.empty()) {
    auto digits = count_digits(text);
    auto whole = text.substr(0, digits);
    text.remove_prefix(digits);
    std::string_view fraction;
    if (!text.empty() && text.front() == '.') {
      fraction = text.substr(1, count_digits(text.substr(1)));
      if (fraction.empty())
        return std::nullopt;
      text.remove_prefix(1 + fraction.size());
    }
    std::size_t letters = 0;
    while (letters < text.size() && !is_digit(text[letters]))
      ++letters;
    auto name = text.substr(0, letters);
    text.remove_prefix(letters);
    while (next_unit < units.size() && units[next_unit].name != name)
      ++next_unit;
    if (whole.empty() || next_unit == units.size())
      return std::nullopt;
    auto part = scaled(whole, fraction, units[next_unit].micros);
    ++next_unit;
    if (!part || *part > max_duration.count() - total)
      return std::nullopt;
    total += *part;
  }
  return duration{total};
}

std::string format_duration(duration x) {
  auto left = x.count();
  if (left == 0)
    return "0s";
  std::string result;
  if (left < 0) {
    result = "-";
    left = -left;
  }
  for (auto& [name, micros] : units) {
    if (auto n = left / micros; n > 0) {
      result += std::to_string(n);
      result += name;
      left %= micros;
    }
  }
  return result;
}

std::string approximate(duration x) {
  auto us = x.count();
  std::string sign;
  if (us < 0) {
    sign = "-";
    us = -us;
  }
  if (us < 1'000'000)
    return sign + std::to_string(us / 1000) + "ms";
  if (us < 10'000'000) {
    auto tenths = us / 100'000;
    return sign + std::to_string(tenths / 10) + "."
           + std::to_string(tenths % 10) + "s";
  }
  auto result = sign;
  auto shown = 0;
  for (auto& [name, micros] : units) {
    if (micros < 1'000'000 || shown == 2)
      break;
    auto n = us / micros;
    if (n == 0 && shown == 0)
      continue;
    if (n > 0) {
      result += std::to_string(n);
      result += name;
    }
    ++shown;
    us %= micros;
  }
  return result;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  struct size_unit {
    std::string_view name;
    std::uint64_t bytes;
  };

  constexpr std::array sizes{
    size_unit{"", 1},
    size_unit{"B", 1},
    size_unit{"kB", 1000},
    size_unit{"KiB", 1024},
    size_unit{"MB", 1000'000},
    size_unit{"MiB", 1024 * 1024},
    size_unit{"GB", 1000'000'000},
    size_unit{"GiB", 1024 * 1024 * 1024},
  };
  auto digits = count_digits(text);
  auto value = to_integer(text.substr(0, digits));
  if (digits == 0 || !value)
    return std::nullopt;
  for (auto& [name, bytes] : sizes) {
    if (name == text.substr(digits)) {
      auto n = static_cast<std::uint64_t>(*value);
      if (n > INT64_MAX / bytes)
        return std::nullopt;
      return n * bytes;
    }
  }
  return std::nullopt;
}

std::string rfc3339(std::int64_t epoch_us) {
  auto seconds = epoch_us / 1'000'000;
  auto micros = epoch_us % 1'000'000;
  if (micros < 0) {
    micros += 1'000'000;
    --seconds;
  }
  auto when = static_cast<std::time_t>(seconds);
  std::tm parts{};
  if (gmtime_r(&when, &parts) == nullptr)
    return "out of range";
  std::array<char, 80> buf{};
  std::snprintf(buf.data(), buf.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(micros / 1000));
  return buf.data();
}

} // namespace leasehold
