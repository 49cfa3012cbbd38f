// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/output_sink.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

namespace leasehold::process {

namespace {

constexpr std::size_t big_piece = 64 * 1024;

} // namespace

output_sink::output_sink(event_loop& loop, int fd, std::size_t limit,
                         std::function<void(int)> on_failure)
  : loop_(loop), fd_(fd), limit_(std::max(limit, std::size_t{1})),
    on_failure_(std::move(on_failure)) {
  struct stat info {};

  if (::fstat(fd, &info) != 0) {
    failed_ = true;
    return;
  }
  if (S_ISREG(info.st_mode) || S_ISBLK(info.st_mode)) {
    kind_ = kind::blocking;
    return;
  }
  if (S_ISSOCK(info.st_mode)) {
    kind_ = kind::socket;
    return;
  }
  if (S_ISFIFO(info.st_mode))
    kind_ = kind::pipe;
  // O_NONBLOCK belongs to the open file, which we share with whoever started
  // us. A second open file of the same pipe or terminal is ours alone. Where
  // that is not allowed, small writes after a poll have to do.
  auto again = above_stdio(
    descriptor{::open(fmt::format("/proc/self/fd/{}", fd).c_str(),
                      O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)});
  if (again) {
    reopened_ = std::move(again);
    fd_ = reopened_.get();
  }
}

void output_sink::put(std::string_view prefix, std::string_view line) {
  if (failed_)
    return;
  buffer_.append(prefix).append(line).push_back('\n');
}

void output_sink::flush() {
  // While the loop waits for room in the descriptor there is none.
  if (watch_ || pending() == 0)
    return;
  write_some();
  if (pending() == 0 || failed_)
    return;
  watch_ = loop_.add(fd_, EPOLLOUT, [this](std::uint32_t) {
    write_some();
    if (pending() == 0)
      watch_.reset();
    if (pending() <= limit_ / 2)
      tell_waiting();
  });
  if (!watch_)
    fail(errno);
}

std::uint64_t output_sink::wait_for_room(std::function<void()> resume) {
  waiting_.emplace(++last_ticket_, std::move(resume));
  return last_ticket_;
}

void output_sink::forget(std::uint64_t ticket) {
  waiting_.erase(ticket);
}

void output_sink::write_some() {
  while (pending() > 0 && !failed_) {
    auto n = write_piece(next_piece());
    if (n >= 0) {
      written_ += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      fail(errno);
      return;
    }
  }
  if (written_ == buffer_.size() || written_ > big_piece * 4) {
    buffer_.erase(0, written_);
    written_ = 0;
  }
}

std::size_t output_sink::next_piece() const noexcept {
  auto size = pending();
  if (kind_ != kind::pipe && reopened_)
    return std::min(size, big_piece);
  if (kind_ == kind::socket || kind_ == kind::blocking)
    return std::min(size, big_piece);
  // Whole lines, as many as the kernel takes in one piece or not at all.
  auto* begin = buffer_.data() + written_;
  auto atomic = std::min(size, std::size_t{PIPE_BUF});
  if (auto* end = ::memrchr(begin, '\n', atomic))
    return static_cast<std::size_t>(static_cast<const char*>(end) - begin) + 1;
  if (!reopened_)
    return atomic;
  auto* end = static_cast<const char*>(std::memchr(begin, '\n', size));
  return end ? static_cast<std::size_t>(end - begin) + 1 : size;
}

long output_sink::write_piece(std::size_t size) noexcept {
  auto* data = buffer_.data() + written_;
  if (kind_ == kind::socket)
    return ::send(fd_, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (kind_ != kind::blocking && !reopened_) {
    pollfd room{fd_, POLLOUT, 0};
    if (::poll(&room, 1, 0) == 0) {
      errno = EAGAIN;
      return -1;
    }
  }
  return ::write(fd_, data, size);
}

void output_sink::fail(int code) {
  failed_ = true;
  watch_.reset();
  buffer_.clear();
  buffer_.shrink_to_fit();
  written_ = 0;
  tell_waiting();
  if (auto tell = std::exchange(on_failure_, nullptr))
    tell(code);
}

void output_sink::tell_waiting() {
  for (auto& [ticket, resume] : std::exchange(waiting_, {}))
    resume();
}

} // namespace leasehold::process
