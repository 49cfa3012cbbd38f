// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <utility>

namespace leasehold::process {

/// Owns one file descriptor. Not thread-safe; moves like a unique_ptr.
class descriptor {
public:
  descriptor() noexcept = default;

  explicit descriptor(int fd) noexcept : fd_(fd) {
    // nop
  }

  descriptor(descriptor&& other) noexcept : fd_(other.release()) {
    // nop
  }

  descriptor& operator=(descriptor&& other) noexcept {
    if (this != &other)
      reset(other.release());
    return *this;
  }

  ~descriptor() {
    reset();
  }

  /// The number, or -1 while nothing is owned.
  int get() const noexcept {
    return fd_;
  }

  explicit operator bool() const noexcept {
    return fd_ >= 0;
  }

  int release() noexcept {
    return std::exchange(fd_, -1);
  }

  /// Closes what is owned and takes `fd` instead. Keeps errno.
  void reset(int fd = -1) noexcept;

private:
  int fd_ = -1;
};

/// Moves a descriptor out of the range 0 to 2, where a program that was
/// started with closed standard streams gets its first descriptors. The result
/// is close-on-exec; empty with errno set when there is no number left.
descriptor above_stdio(descriptor fd) noexcept;

struct pipe_ends {
  descriptor read;
  descriptor write;
};

/// A close-on-exec pipe above the standard streams; nothing with errno set on
/// failure.
std::optional<pipe_ends> make_pipe() noexcept;

/// A descriptor that becomes readable when the process ends; empty with errno
/// set on failure.
descriptor open_pidfd(pid_t pid) noexcept;

/// Sets O_NONBLOCK on the open file, which all of its descriptors share.
bool set_nonblocking(const descriptor& fd) noexcept;

} // namespace leasehold::process
