// SPDX-License-Identifier: Apache-2.0
#include "leasehold/log.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>

namespace leasehold::app {

namespace {

constexpr std::array<std::string_view, 4> names{"error", "warn", "info",
                                                "debug"};

// Syslog priorities of the same levels.
constexpr std::array<std::string_view, 4> priorities{"<3>", "<4>", "<6>",
                                                     "<7>"};

std::string_view name_of(log_level level) {
  return names.at(static_cast<std::size_t>(level));
}

bool is_plain(std::string_view text) {
  for (auto c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7F || c == '"' || c == '=' || c == '\\')
      return false;
  }
  return !text.empty();
}

// JSON's quoting is what people and tools know how to read back.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

// How long a line waits for a slow reader.
constexpr int patience_ms = 100;

bool has_room(int wait_ms) {
  pollfd fd{STDERR_FILENO, POLLOUT, 0};
  // Errors are for write() to find.
  return ::poll(&fd, 1, wait_ms) != 0;
}

std::string wall_clock(const char* format, bool utc) {
  auto now = std::time(nullptr);
  std::tm parts{};
  if (utc)
    gmtime_r(&now, &parts);
  else
    localtime_r(&now, &parts);
  std::array<char, 64> buf{};
  auto size = std::strftime(buf.data(), buf.size(), format, &parts);
  return {buf.data(), size};
}

} // namespace

logger::logger(log_level level, log_format format)
  : level_(level), format_(format),
    journald_(std::getenv("JOURNAL_STREAM") != nullptr) {
  // nop
}

void logger::write(log_level level, std::string_view event,
                   std::initializer_list<log_field> fields) {
  if (!shows(level))
    return;
  auto line = format(level, event, fields);
  std::lock_guard guard{mtx_};
  if (!has_room(lost_lines_ == 0 ? patience_ms : 0)) {
    ++lost_lines_;
    return;
  }
  if (lost_lines_ > 0)
    line.insert(0, format(log_level::warning, "log_lines_lost",
                          {{"lines", std::to_string(lost_lines_)}}));
  lost_lines_ = 0;
  // A log that cannot be written must not stop the work.
  [[maybe_unused]] auto n = ::write(STDERR_FILENO, line.data(), line.size());
}

std::string logger::format(log_level level, std::string_view event,
                           std::initializer_list<log_field> fields) const {
  std::string line;
  if (format_ == log_format::json) {
    nlohmann::ordered_json entry;
    entry["time"] = wall_clock("%Y-%m-%dT%H:%M:%SZ", true);
    entry["level"] = name_of(level);
    entry["event"] = event;
    for (auto& field : fields)
      entry[std::string{field.key}] = field.value;
    line = entry.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  } else {
    if (!journald_)
      line = fmt::format("{} {:<5} ", wall_clock("%H:%M:%S", false),
                         name_of(level));
    line += event;
    for (auto& field : fields)
      line += fmt::format(" {}={}", field.key,
                          is_plain(field.value) ? field.value
                                                : quoted(field.value));
  }
  if (journald_)
    line.insert(0, priorities.at(static_cast<std::size_t>(level)));
  return line + '\n';
}

} // namespace leasehold::app
