// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/duration.hpp"
#include "leasehold/lease_window.hpp"
#include "leasehold/process/checkpoint_protocol.hpp"
#include "leasehold/process/guard.hpp"
#include "leasehold/process/runtime_folder.hpp"
#include "leasehold/process/spawn.hpp"

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace leasehold::process {

enum class input_mode : std::uint8_t {
  /// /dev/null.
  none,
  /// Our own standard input.
  inherit,
};

enum class output_mode : std::uint8_t {
  /// Line by line to our own output, behind `label | `.
  prefix,
  /// Our own standard output and error.
  inherit,
  /// Appended to `output_file`.
  file,
  /// /dev/null.
  discard,
};

/// What to start, and until when it may live.
struct child_spec {
  /// The program and its arguments; no shell is involved. A name without a
  /// slash is looked up in the PATH that the child gets.
  std::vector<std::string> argv;
  /// Working directory; empty: ours.
  std::string directory;
  /// Set after the inherited variables; later entries win.
  variable_list environment;
  /// Not passed on, for example LEASEHOLD_STORE: it may hold a password.
  std::vector<std::string> removed_environment;
  input_mode input = input_mode::none;
  output_mode output = output_mode::prefix;
  /// For `file`; created with permissions 0640 if it is not there.
  std::string output_file;
  /// Names the child in prefixes, for example "shards/shard-5".
  std::string label;
  /// Written to a private file that LEASEHOLD_STATE names. Absent: the
  /// variable is not set.
  std::optional<std::string> state;
  /// The lease that the child works under. Without one it may live for ever.
  std::shared_ptr<const lease_window> window;
  int stop_signal = SIGTERM;
  /// From the stop signal to SIGKILL, if the window leaves that much.
  duration grace = std::chrono::seconds{10};
  /// The stop signal is sent when no more than this is left of the window:
  /// renewals were not confirmed.
  duration stop_before{0};
  /// The group is killed when no more than this is left, whatever else
  /// happens. Covers the time that the kernel needs to end processes; not less
  /// than 50ms is sensible.
  duration kill_before = std::chrono::milliseconds{100};
};

/// How a child ended.
struct child_exit {
  enum class kind : std::uint8_t { exited, signalled, not_started };

  kind how = kind::not_started;
  /// The exit code, the signal, or the errno value of a failed start.
  int code = 0;
  /// Set for a failed start: what failed.
  start_step step = start_step::prepare;
  /// The stop signal was sent, by `stop` or because of the window.
  bool stop_requested = false;
  /// SIGKILL was sent while the child was alive.
  bool killed = false;
  /// For people. Names no values of variables and no state.
  std::string detail;
};

/// What a shell would report: the code, 128 + signal, 127 for a program that
/// is not there, 126 for anything else that could not be started.
int shell_exit_code(const child_exit& x) noexcept;

/// Called in the supervisor's thread: return quickly, do not throw, do not
/// wait for other threads that may call the supervisor's destructor. Calling
/// the supervisor's other members is fine.
struct child_events {
  using answer_function = std::function<void(child_reply)>;

  /// The program runs. Not called for a child that could not be started.
  std::function<void(pid_t)> on_start;
  /// Called exactly once, and last: no process of the group is alive any more.
  std::function<void(const child_exit&)> on_exit;
  /// The child asks for its state or stores it. `answer` may be called later
  /// and from any thread, also when the child or the supervisor is gone; calls
  /// after the first do nothing. If every copy is destroyed uncalled, the
  /// child is told that the outcome is unknown. Requests for the window come
  /// here only if the child has none.
  std::function<void(child_request, answer_function answer)> on_request;
};

enum class child_id : std::uint64_t {};

struct supervisor_options {
  /// Where prefixed lines go. Stays the caller's, open and unchanged.
  int output_fd = 1;
  /// Longest state that a child may store.
  std::size_t max_state_bytes = 1024 * 1024;
  /// Lines that wait for a slow reader of `output_fd`; beyond it, children
  /// wait when they write.
  std::size_t output_buffer_bytes = 1024 * 1024;
  /// How long output of a child that has ended may wait for a slow reader
  /// before it is dropped; the destructor waits no longer than that either.
  duration drain_limit = std::chrono::seconds{1};
  /// Called in the supervisor's thread when prefixed lines cannot be written
  /// any more (an errno value). Children go on; their lines are dropped.
  std::function<void(int)> on_output_lost;
  /// Called in the supervisor's thread if the guard died: if we are killed
  /// now, what our children have started may survive us.
  std::function<void()> on_guard_lost;
};

/// Starts child processes, each as a process group of its own, and ends them
/// no later than their lease windows.
///
/// One thread does it all. It looks at the windows itself, so that no other
/// part of the program has to be well for the promise to hold:
///
///     |------------------- window --------------------| end
///                     | stop_before: CONT, TERM       |
///                                | or end of grace: KILL to the group
///                                        | kill_before: KILL, always
///                                            | the guard's KILL, should this
///                                              process be unable to act
///
/// A window that moves forward in time moves all of that. When the leader of a
/// group ends, the rest of its group is killed.
///
/// Members may be called from any thread, except for the destructor, which
/// must not run in a callback.
class supervisor {
public:
  /// @param helper, folder Outlive the supervisor; from here on the guard
  ///                       belongs to the supervisor's thread.
  /// @throws std::system_error when there is no thread or descriptor left.
  supervisor(guard& helper, const runtime_folder& folder,
             supervisor_options options = {});

  supervisor(const supervisor&) = delete;
  supervisor& operator=(const supervisor&) = delete;

  /// Kills what is left, delivers its `on_exit`, and waits for that.
  ~supervisor();

  /// Starts a child. Failures are reported by `on_exit`, never before `start`
  /// was entered but possibly before it returns.
  child_id start(child_spec spec, child_events events);

  /// Sends SIGCONT and the stop signal to the group, and SIGKILL after the
  /// grace. Does nothing for a child that is stopping or gone.
  void stop(child_id child);

  /// Sends SIGKILL to the group.
  void kill(child_id child);

  /// Forwards a signal to the group.
  void signal(child_id child, int number);

  /// Looks at all windows now. Call it after a window was marked lost: nothing
  /// else would tell the supervisor before the next look.
  void check_now();

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

} // namespace leasehold::process
