// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/guard.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <map>
#include <system_error>

namespace leasehold::process {

namespace {

// Far below PIPE_BUF, so writers never mix and readers see whole records.
struct record {
  std::int64_t at_ns;
  std::int32_t group;
  char what; // + listed, - gone, = expires at
  char padding[3];
};

static_assert(sizeof(record) == 16);

constexpr auto never = std::int64_t{0};

record make_record(char what, pid_t group, window_time at) noexcept {
  return {at.count(), group, what, {}};
}

int write_record(int fd, const record& what) noexcept {
  for (;;) {
    if (::write(fd, &what, sizeof(what)) == sizeof(what))
      return 0;
    if (errno != EINTR)
      return errno;
  }
}

// -- the helper ---------------------------------------------------------------

using group_list = std::map<pid_t, std::int64_t>;

void note(group_list& groups, const record& what) {
  switch (what.what) {
    case '+':
      groups.try_emplace(what.group, never);
      break;
    case '-':
      groups.erase(what.group);
      break;
    case '=':
      // May overtake the child's own record.
      groups[what.group] = what.at_ns;
      break;
    default:
      break;
  }
}

void kill_expired(group_list& groups) {
  auto now = system_window_clock().now().count();
  for (auto& [group, at] : groups)
    if (at != never && at <= now) {
      ::kill(-group, SIGKILL);
      at = never;
    }
}

void set_alarm(int fd, const group_list& groups) {
  auto next = never;
  for (auto& [group, at] : groups)
    if (at != never && (next == never || at < next))
      next = at;
  itimerspec spec{};
  spec.it_value.tv_sec = next / 1'000'000'000;
  spec.it_value.tv_nsec = next % 1'000'000'000;
  ::timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, nullptr);
}

[[noreturn]] void run_helper(int inherited) {
  ::setsid();
  ::prctl(PR_SET_NAME, "leasehold-guard");
  for (auto ignored :
       {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM})
    std::signal(ignored, SIG_IGN);
  // Would keep a file system busy.
  [[maybe_unused]] auto rc = ::chdir("/");
  constexpr int fd = 0;
  ::dup2(inherited, fd);
  ::close_range(fd + 1, ~0U, 0);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  auto alarm = ::timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK);
  group_list groups;
  std::array<record, 256> batch;
  for (;;) {
    // Everything that was said comes first: a group that was taken off the
    // list in time must not be killed.
    auto n = ::read(fd, batch.data(), sizeof(batch));
    if (n > 0) {
      auto count = static_cast<std::size_t>(n) / sizeof(record);
      for (std::size_t i = 0; i < count; ++i)
        note(groups, batch[i]);
      continue;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
      break;
    kill_expired(groups);
    set_alarm(alarm, groups);
    std::array<pollfd, 2> ready{{{fd, POLLIN, 0}, {alarm, POLLIN, 0}}};
    ::poll(ready.data(), ready.size(), -1);
  }
  for (auto& [group, at] : groups)
    ::kill(-group, SIGKILL);
  ::_exit(0);
}

} // namespace

// -- our side -----------------------------------------------------------------

guard::guard() {
  auto ends = make_pipe();
  auto ready = make_pipe();
  if (!ends || !ready || !set_nonblocking(ends->write))
    throw std::system_error(errno, std::generic_category(), "guard: pipe");
  pid_ = ::fork();
  if (pid_ < 0)
    throw std::system_error(errno, std::generic_category(), "guard: fork");
  if (pid_ == 0)
    run_helper(ends->read.get());
  // Until it has closed what it inherited, a signal could still end it.
  ready->write.reset();
  char nothing;
  while (::read(ready->read.get(), &nothing, 1) < 0 && errno == EINTR) {
    // nop
  }
  pipe_ = std::move(ends->write);
  pidfd_ = open_pidfd(pid_);
  if (!pidfd_) {
    auto code = errno;
    pipe_.reset();
    ::waitpid(pid_, nullptr, 0);
    throw std::system_error(code, std::generic_category(), "guard: pidfd");
  }
}

guard::~guard() {
  pipe_.reset();
  if (lost_)
    return;
  pollfd ended{pidfd_.get(), POLLIN, 0};
  if (::poll(&ended, 1, 1000) != 1)
    ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void guard::reap() noexcept {
  if (!lost_ && ::waitpid(pid_, nullptr, WNOHANG) == pid_) {
    lost_ = true;
    unsent_.clear();
  }
}

int guard::add_from_child() const noexcept {
  auto what = make_record('+', ::getpid(), {});
  for (auto patience = 100; patience > 0; --patience) {
    auto code = write_record(pipe_.get(), what);
    if (code == 0 || code == EPIPE)
      return 0;
    if (code != EAGAIN)
      return code;
    pollfd room{pipe_.get(), POLLOUT, 0};
    ::poll(&room, 1, 10);
  }
  return EAGAIN;
}

void guard::expire(pid_t group, window_time at) noexcept {
  send('=', group, at);
}

void guard::remove(pid_t group) noexcept {
  send('-', group, {});
}

void guard::send(char what, pid_t group, window_time at) noexcept {
  if (lost_)
    return;
  auto next = make_record(what, group, at);
  if (!behind() && write_record(pipe_.get(), next) == 0)
    return;
  unsent_.append(reinterpret_cast<const char*>(&next), sizeof(next));
  retry();
}

void guard::retry() noexcept {
  std::size_t sent = 0;
  while (sent < unsent_.size()) {
    record next;
    std::memcpy(&next, unsent_.data() + sent, sizeof(next));
    auto code = write_record(pipe_.get(), next);
    if (code == EPIPE) // `reap` follows as soon as the loop sees the end.
      sent = unsent_.size();
    else if (code == 0)
      sent += sizeof(next);
    else
      break;
  }
  unsent_.erase(0, sent);
}

} // namespace leasehold::process
