// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>

namespace leasehold::app {

enum class log_level : std::uint8_t { error, warning, info, debug };

enum class log_format : std::uint8_t { text, json };

/// One key and its value. Values are quoted in print where a blank or a quote
/// would make them ambiguous.
struct log_field {
  std::string_view key;
  std::string value;
};

/// Writes one line per change of state to standard error:
///
///     12:01:07 info  acquired work=shard-5 token=402 prior=expired
///
/// or the same as one JSON object. Under journald lines carry a priority and no
/// time. Thread-safe; a line is written by one call, so lines of several
/// processes do not mix.
class logger {
public:
  logger(log_level level, log_format format);

  bool shows(log_level level) const noexcept {
    return level <= level_;
  }

  /// `event` is a stable name such as `acquired`. Lines for a reader that
  /// stands still are dropped and counted: renewals must not wait for it.
  void write(log_level level, std::string_view event,
             std::initializer_list<log_field> fields);

private:
  std::string format(log_level level, std::string_view event,
                     std::initializer_list<log_field> fields) const;

  log_level level_;
  log_format format_;
  bool journald_;
  std::mutex mtx_;
  std::uint64_t lost_lines_ = 0;
};

} // namespace leasehold::app
