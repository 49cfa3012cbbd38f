// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/descriptor.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace leasehold::process {

void descriptor::reset(int fd) noexcept {
  if (auto old = std::exchange(fd_, fd); old >= 0) {
    auto saved = errno;
    // Never repeated after EINTR: Linux has freed the number by then.
    ::close(old);
    errno = saved;
  }
}

descriptor above_stdio(descriptor fd) noexcept {
  if (fd.get() < 0 || fd.get() > STDERR_FILENO)
    return fd;
  return descriptor{::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1)};
}

std::optional<pipe_ends> make_pipe() noexcept {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0)
    return std::nullopt;
  pipe_ends result{above_stdio(descriptor{fds[0]}), {}};
  result.write = above_stdio(descriptor{fds[1]});
  if (!result.read || !result.write)
    return std::nullopt;
  return result;
}

descriptor open_pidfd(pid_t pid) noexcept {
  // The header of glibc 2.36 declares its wrapper without extern "C".
  return above_stdio(
    descriptor{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))});
}

bool set_nonblocking(const descriptor& fd) noexcept {
  auto flags = ::fcntl(fd.get(), F_GETFL);
  return flags >= 0 && ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) == 0;
}

} // namespace leasehold::process
