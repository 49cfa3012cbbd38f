// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/process/checkpoint_server.hpp"
#include "leasehold/process/output_pump.hpp"
#include "leasehold/process/process_table.hpp"
#include "leasehold/process/supervisor.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace leasehold::process {

/// A file that is removed with the object.
class scratch_file {
public:
  scratch_file() = default;

  explicit scratch_file(std::string path) : path_(std::move(path)) {
    // nop
  }

  scratch_file(scratch_file&& other) noexcept
    : path_(std::exchange(other.path_, {})) {
    // nop
  }

  scratch_file& operator=(scratch_file&& other) noexcept {
    path_.swap(other.path_);
    return *this;
  }

  ~scratch_file();

private:
  std::string path_;
};

/// What can be done for a start in the caller's thread: all that touches the
/// file system, which may be slow.
struct prepared_child {
  child_spec spec;
  child_events events;
  launch_plan plan;
  socket_file socket;
  scratch_file state_file;
  descriptor input;
  descriptor output;
  /// The parent's ends for mode prefix: standard output and error. Two pipes,
  /// so that a line of one is not torn by the other.
  std::vector<descriptor> pipes;
  /// The child's end of the second pipe.
  descriptor error_output;
  /// Why it cannot be started.
  std::optional<child_exit> failure;
};

prepared_child prepare_child(child_id id, child_spec spec, child_events events,
                             const runtime_folder& folder);

/// What children share; belongs to the loop's thread.
struct child_context {
  event_loop& loop;
  output_sink& sink;
  guard& helper;
  task_thread& codec;
  process_table& processes;
  std::size_t max_state_bytes;
  /// Takes pipes of a child that has ended and whose lines have no room yet.
  std::function<void(std::unique_ptr<output_pump>)> keep_pump;
  /// Destroys the child; called last in a handler, right after on_exit.
  std::function<void(child_id)> on_gone;
};

/// One child from its start until its group is gone. Belongs to the loop's
/// thread.
class child {
public:
  child(child_context& context, child_id id, prepared_child prepared);

  child(const child&) = delete;
  child& operator=(const child&) = delete;

  ~child();

  /// May end the child at once, and with it this object.
  void start();

  void stop();

  void kill();

  void signal(int number);

  /// Compares the window with the clock, does what is due and sets the next
  /// look.
  void check();

private:
  enum class phase : std::uint8_t { starting, running, dissolving, gone };

  bool alive() const noexcept {
    return phase_ == phase::starting || phase_ == phase::running;
  }

  void serve(socket_file socket);
  void answer(child_request request, child_events::answer_function reply);
  void on_status(bool ended);
  void on_leader_exit();
  void set_result(const siginfo_t& info);
  void await_group(window_time since);
  void finish();

  child_context& context_;
  child_id id_;
  child_spec spec_;
  child_events events_;
  prepared_child prepared_;
  phase phase_ = phase::starting;
  child_exit result_;
  pid_t pid_ = -1;
  descriptor pidfd_;
  descriptor status_;
  std::optional<window_time> grace_end_;
  window_time told_guard_{0};
  window_time poll_pause_{0};
  std::vector<std::unique_ptr<output_pump>> pumps_;
  std::shared_ptr<checkpoint_server> server_;
  event_loop::watch pidfd_watch_;
  event_loop::watch status_watch_;
  event_loop::timer timer_;
};

} // namespace leasehold::process
