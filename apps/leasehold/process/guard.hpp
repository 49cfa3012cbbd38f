// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/clock.hpp"
#include "leasehold/process/descriptor.hpp"

#include <sys/types.h>

#include <string>

namespace leasehold::process {

/// A helper process that outlives us just long enough to kill our children.
///
/// It has a session of its own, so a terminal's Ctrl-C does not reach it, and
/// holds nothing but the read end of a pipe. Over that pipe it learns which
/// process groups live and until when each of them may. When the pipe ends,
/// because we exited, crashed or were killed by SIGKILL, it kills every group
/// that is still listed. It kills a single group when that group's time is up,
/// which happens only if we could not do so ourselves, for instance because
/// somebody stopped us with SIGSTOP.
///
/// PR_SET_PDEATHSIG alone is not enough for that: it reaches the leader of a
/// group but not what the leader has started.
///
/// Belongs to one thread at a time; a forked child may use `add_from_child`.
class guard {
public:
  /// Forks the helper and waits until no signal but SIGKILL can end it.
  /// @pre No other thread exists yet, or none that could hold a lock.
  /// @throws std::system_error when there is no process or descriptor left.
  guard();

  guard(const guard&) = delete;
  guard& operator=(const guard&) = delete;

  /// Ends the helper, which kills the groups that are still listed, and waits
  /// for it; no longer than a second.
  ~guard();

  pid_t pid() const noexcept {
    return pid_;
  }

  /// Readable when the helper has ended.
  int pidfd() const noexcept {
    return pidfd_.get();
  }

  /// Whether the helper is known to be gone.
  bool lost() const noexcept {
    return lost_;
  }

  /// Collects a helper that has ended; nothing listed is protected from then.
  void reap() noexcept;

  /// Lists the calling process as leader of a group. For use between fork and
  /// exec: async-signal-safe, and the record is in the pipe before the program
  /// runs. May leave a SIGPIPE pending if that signal is blocked. Returns an
  /// errno value; 0 also when the helper is gone.
  int add_from_child() const noexcept;

  /// Sets when the helper kills the group by itself; lists the group if the
  /// child's own record is not there yet.
  void expire(pid_t group, window_time at) noexcept;

  /// Takes a group off the list. Call it before the leader is reaped, while
  /// the number cannot belong to anybody else.
  void remove(pid_t group) noexcept;

  /// Whether records wait because the helper does not read. `retry` sends
  /// them.
  bool behind() const noexcept {
    return !unsent_.empty();
  }

  void retry() noexcept;

private:
  void send(char what, pid_t group, window_time at) noexcept;

  pid_t pid_ = -1;
  descriptor pipe_;
  descriptor pidfd_;
  std::string unsent_;
  bool lost_ = false;
};

} // namespace leasehold::process
