// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/process/output_sink.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace leasehold::process {

/// Longest line that is written in one piece; longer ones are cut.
inline constexpr std::size_t max_line_bytes = 8 * 1024;

/// Cuts a stream into lines. Keeps at most one unfinished piece.
class line_splitter {
public:
  using consumer = std::function<void(std::string_view)>;

  /// Calls `consume` for every line that `bytes` completes.
  void feed(std::string_view bytes, const consumer& consume);

  /// Passes on what came after the last newline.
  void finish(const consumer& consume);

private:
  std::string partial_;
};

/// The prefix for the lines of a child: `label | `. Control characters of the
/// label, which a work ID may contain, are replaced.
std::string line_prefix(std::string_view label);

/// Copies the lines of one pipe to a sink, each behind a prefix. Stops reading
/// while the sink is full. Belongs to the loop's thread.
class output_pump {
public:
  output_pump(event_loop& loop, output_sink& sink, descriptor pipe,
              std::string prefix);

  output_pump(const output_pump&) = delete;
  output_pump& operator=(const output_pump&) = delete;

  ~output_pump();

  /// Takes what is in the pipe now and ends, even if somebody still holds the
  /// other end. Ends later, when there is room, if the sink is full.
  void drain();

  /// Nothing more will come.
  bool done() const noexcept {
    return !pipe_;
  }

private:
  void resume();
  void on_readable();
  bool read_block();
  void end();

  event_loop& loop_;
  output_sink& sink_;
  descriptor pipe_;
  std::string prefix_;
  line_splitter lines_;
  event_loop::watch watch_;
  std::uint64_t ticket_ = 0;
  bool draining_ = false;
};

} // namespace leasehold::process
