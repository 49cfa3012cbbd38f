// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/output_pump.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace leasehold::process {

namespace {

constexpr std::size_t block_bytes = 64 * 1024;

// Whoever escaped from the group can go on writing for ever; nobody else can
// have left more than a pipe holds (1 MiB unless root raised the limit).
constexpr int last_blocks = 16;

} // namespace

void line_splitter::feed(std::string_view bytes, const consumer& consume) {
  while (!bytes.empty()) {
    auto end = bytes.find('\n');
    auto piece = bytes.substr(0, end);
    auto room = max_line_bytes - partial_.size();
    if (piece.size() > room) {
      // Cut; what follows starts a line of its own.
      partial_.append(piece.substr(0, room));
      consume(partial_);
      partial_.clear();
      bytes.remove_prefix(room);
      continue;
    }
    if (end == std::string_view::npos) {
      partial_.append(piece);
      return;
    }
    if (partial_.empty()) {
      consume(piece);
    } else {
      partial_.append(piece);
      consume(partial_);
      partial_.clear();
    }
    bytes.remove_prefix(end + 1);
  }
}

void line_splitter::finish(const consumer& consume) {
  if (!partial_.empty())
    consume(std::exchange(partial_, {}));
}

std::string line_prefix(std::string_view label) {
  std::string result{label};
  for (auto& c : result)
    if (auto code = static_cast<unsigned char>(c); code < 0x20 || code == 0x7f)
      c = '?';
  return result += " | ";
}

output_pump::output_pump(event_loop& loop, output_sink& sink, descriptor pipe,
                         std::string prefix)
  : loop_(loop), sink_(sink), pipe_(std::move(pipe)),
    prefix_(std::move(prefix)) {
  set_nonblocking(pipe_);
  resume();
}

output_pump::~output_pump() {
  if (ticket_ != 0)
    sink_.forget(ticket_);
}

void output_pump::drain() {
  draining_ = true;
  if (pipe_ && ticket_ == 0)
    on_readable();
}

void output_pump::resume() {
  ticket_ = 0;
  if (draining_)
    on_readable();
  else
    watch_ = loop_.add(pipe_.get(), EPOLLIN,
                       [this](std::uint32_t) { on_readable(); });
}

void output_pump::on_readable() {
  // One block a round while the child lives: its neighbours wait too.
  auto more = true;
  for (auto blocks = draining_ ? last_blocks : 1; blocks > 0 && more;
       --blocks) {
    if (sink_.full()) {
      // Without a watch: a closed pipe would be reported again and again.
      watch_.reset();
      ticket_ = sink_.wait_for_room([this] { resume(); });
      return;
    }
    more = read_block();
    sink_.flush();
  }
  if (draining_ && pipe_)
    end();
}

bool output_pump::read_block() {
  std::array<char, block_bytes> block;
  auto n = ::read(pipe_.get(), block.data(), block.size());
  if (n > 0) {
    lines_.feed({block.data(), static_cast<std::size_t>(n)},
                [this](std::string_view line) { sink_.put(prefix_, line); });
    return true;
  }
  if (n == 0 || (errno != EAGAIN && errno != EINTR))
    end();
  return false;
}

void output_pump::end() {
  watch_.reset();
  pipe_.reset();
  lines_.finish([this](std::string_view line) { sink_.put(prefix_, line); });
  sink_.flush();
}

} // namespace leasehold::process
