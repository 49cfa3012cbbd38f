// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/process/event_loop.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace leasehold::process {

/// Writes whole lines to our own output and never blocks the loop.
///
/// Lines wait in a buffer; once it is full, those who produce lines wait for
/// room, which is how a slow reader of our output slows down the children
/// instead of filling our memory. In a pipe, lines of up to PIPE_BUF bytes are
/// written in one piece, so they stay whole even if others write to the same
/// pipe. Belongs to the loop's thread.
class output_sink {
public:
  /// @param fd Stays open, and its O_NONBLOCK flag, which it may share with
  ///           the caller's shell, stays as it is.
  /// @param limit Bytes after which the sink counts as full.
  /// @param on_failure Called once with an errno value when writing failed for
  ///                   good; what comes later is dropped.
  output_sink(event_loop& loop, int fd, std::size_t limit,
              std::function<void(int)> on_failure);

  /// Queues one line; adds the newline. Takes it even when full, so that a
  /// producer who has just read a block need not keep the rest.
  void put(std::string_view prefix, std::string_view line);

  /// Writes what can be written at once and leaves the rest to the loop.
  void flush();

  bool full() const noexcept {
    return pending() >= limit_;
  }

  std::size_t pending() const noexcept {
    return buffer_.size() - written_;
  }

  /// Calls `resume` once when there is room again. Returns a ticket for
  /// `forget`.
  std::uint64_t wait_for_room(std::function<void()> resume);

  void forget(std::uint64_t ticket);

private:
  enum class kind { pipe, socket, other, blocking };

  void write_some();
  std::size_t next_piece() const noexcept;
  long write_piece(std::size_t size) noexcept;
  void fail(int code);
  void tell_waiting();

  event_loop& loop_;
  int fd_;
  descriptor reopened_;
  kind kind_ = kind::other;
  std::size_t limit_;
  std::function<void(int)> on_failure_;
  std::string buffer_;
  std::size_t written_ = 0;
  bool failed_ = false;
  std::uint64_t last_ticket_ = 0;
  std::map<std::uint64_t, std::function<void()>> waiting_;
  event_loop::watch watch_;
};

} // namespace leasehold::process
