// SPDX-License-Identifier: Apache-2.0
#include "leasehold/command/rows.hpp"

#include "leasehold/duration.hpp"
#include "leasehold/process/base64.hpp"

#include <fmt/format.h>

namespace leasehold::app {

namespace {

nlohmann::ordered_json text_or_null(const std::string& text) {
  if (text.empty())
    return nullptr;
  return text;
}

struct character {
  unsigned value = 0;
  std::size_t size = 0;
};

// What JSON leaves as it is and a terminal obeys instead of showing it: DEL,
// the controls from U+0080 to U+009F, line separators, and what changes the
// direction of text. Takes UTF-8; size 0 if the first character is none.
character hidden_character(std::string_view text) {
  auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  if (byte(0) == 0x7F)
    return {0x7F, 1};
  if (byte(0) == 0xC2 && byte(1) < 0xA0)
    return {byte(1), 2};
  if (byte(0) != 0xE2)
    return {};
  auto value = 0x2000u | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  auto hides = (value >= 0x2028 && value <= 0x202E)
               || (value >= 0x2066 && value <= 0x2069);
  return hides ? character{value, 3} : character{};
}

// On one line, with all that a terminal would obey escaped.
std::string to_json_string(std::string_view text) {
  auto quoted = nlohmann::json(text).dump(
    -1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string result;
  for (std::size_t i = 0; i < quoted.size(); ++i) {
    if (auto hidden = hidden_character(std::string_view{quoted}.substr(i));
        hidden.size > 0) {
      result += fmt::format("\\u{:04x}", hidden.value);
      i += hidden.size - 1;
    } else {
      result += quoted[i];
    }
  }
  return result;
}

} // namespace

std::string_view state_of(const backend::row& x, std::int64_t now_us) {
  if (x.exit == exit_mode::retired)
    return "retired";
  if (x.exit != exit_mode::none)
    return "free";
  return x.expires_us >= now_us ? "held" : "lapsed";
}

nlohmann::ordered_json to_json(const backend::row& x, std::int64_t now_us) {
  auto held = state_of(x, now_us) == "held";
  nlohmann::ordered_json result;
  result["work_id"] = x.work_id;
  result["state"] = state_of(x, now_us);
  result["holder_id"] = held ? text_or_null(x.holder_id) : nullptr;
  result["last_holder_id"] = x.holder_id;
  result["token"] = x.number;
  result["expires_at"] = rfc3339(x.expires_us);
  result["left_seconds"]
    = static_cast<double>(x.expires_us - now_us) / 1'000'000;
  result["acquired_at"] = rfc3339(x.acquired_us);
  result["updated_at"] = rfc3339(x.updated_us);
  result["exit"] = x.exit == exit_mode::none
                     ? nlohmann::ordered_json(nullptr)
                     : nlohmann::ordered_json(to_string(x.exit));
  result["previous_exit"] = to_string(x.previous_exit);
  result["previous_holder_id"] = text_or_null(x.previous_holder_id);
  result["state_bytes"] = x.state_bytes ? nlohmann::ordered_json(*x.state_bytes)
                                        : nlohmann::ordered_json(nullptr);
  if (x.state)
    result["state_base64"] = process::encode_base64(*x.state);
  return result;
}

std::string on_one_line(std::string_view text) {
  auto quoted = to_json_string(text);
  auto inner = std::string_view{quoted}.substr(1, quoted.size() - 2);
  // Only what would break the line is escaped; quotes are fine as they are.
  std::string result;
  for (std::size_t i = 0; i < inner.size(); ++i) {
    if (inner[i] == '\\' && i + 1 < inner.size()
        && (inner[i + 1] == '"' || inner[i + 1] == '\\'))
      ++i;
    result += inner[i];
  }
  return result;
}

std::string as_name(const std::string& id) {
  return id.starts_with('"') || on_one_line(id) != id ? to_json_string(id) : id;
}

std::string short_size(std::uint64_t bytes) {
  if (bytes < 1000)
    return fmt::format("{} B", bytes);
  if (bytes < 1'000'000)
    return fmt::format("{} k", bytes / 1000);
  return fmt::format("{} M", bytes / 1'000'000);
}

} // namespace leasehold::app
