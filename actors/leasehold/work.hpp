// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/messages.hpp"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace leasehold {

/// What running work can ask from any thread without a message: must I stop?
class work_control {
public:
  explicit work_control(lease_window_ptr window) : window_(std::move(window)) {
    // nop
  }

  /// True once a stop was asked for or the lease is lost. Compares the window
  /// clock itself, so it is right at the first look after a pause.
  bool stop_requested() const noexcept {
    return stop_.load(std::memory_order_acquire) || !window_->held();
  }

  /// Time left in the lease window; zero once the lease is lost.
  duration window_left() const noexcept {
    return std::chrono::duration_cast<duration>(window_->left());
  }

  /// Blocks for `pause`, less if work must stop. Returns whether the whole
  /// pause passed. For worker functions; never call it in an event-based actor.
  bool wait_for(duration pause);

  /// Asks the work to stop and wakes `wait_for`.
  void request_stop();

private:
  lease_window_ptr window_;
  std::atomic<bool> stop_{false};
  std::mutex mtx_;
  std::condition_variable changed_;
};

/// Everything a worker gets to know about its run.
struct assignment {
  token tok;

  /// How far the predecessor came, and how it ended.
  prior found;

  /// Monitor it (see end_with): its down message says that the lease is lost.
  hold_actor hold;

  lease_window_ptr window;

  /// Where checkpoints go: post(self, checkpoint_request{tok, state}).
  lease_actor lease;

  /// Where the result goes.
  slot_actor slot;

  std::shared_ptr<work_control> control;
};

/// Starts one run as an actor, which must not be shared between runs. It
///  - monitors `assignment::hold` and ends when that ends,
///  - takes an exit message with user_shutdown as the wish to stop: it may
///    store a last checkpoint, but must end within the pool's grace,
///  - ends with a work_result to `assignment::slot` and quits, or just quits.
/// A factory that throws ends the run as work_threw.
using worker_factory
  = std::function<caf::actor(caf::actor_system&, assignment)>;

/// What a worker function sees. Used by the one thread that runs the function.
class work_context {
public:
  work_context(caf::actor_system& sys, assignment job);

  const leasehold::token& token() const noexcept {
    return job_.tok;
  }

  const prior& found() const noexcept {
    return job_.found;
  }

  /// See work_control. Look at it between steps; after a loss nothing that is
  /// written with this token will be accepted.
  bool stop_requested() const noexcept {
    return job_.control->stop_requested();
  }

  duration window_left() const noexcept {
    return job_.control->window_left();
  }

  bool wait_for(duration pause) {
    return job_.control->wait_for(pause);
  }

  /// Stores progress and extends the lease; returns when it is stored. Errors
  /// as checkpoint_request; after fenced, lease_expired or
  /// lease_window_exhausted return from the function.
  caf::error checkpoint(std::optional<std::string> state);

private:
  assignment job_;
  caf::scoped_actor self_;
};

/// Runs until it returns; must look at `stop_requested` often enough to return
/// within the pool's grace, since a thread cannot be killed.
using work_function = std::function<work_result(work_context&)>;

/// Runs a function on a thread of its own. An exception that leaves it ends
/// the run as work_threw: nothing is released and the lease lapses.
worker_factory run_function(work_function fn);

/// The run is complete. Absent state keeps the last checkpoint.
work_result succeeded(std::optional<std::string> state = std::nullopt);

/// The work ID is done for good.
work_result retired(std::optional<std::string> state = std::nullopt);

/// This run failed; another may do better.
work_result failed(std::string detail,
                   std::optional<std::string> state = std::nullopt);

/// No run will do better: ends the slot.
work_result failed_for_good(std::string detail,
                            std::optional<std::string> state = std::nullopt);

/// Reports the result of an actor worker and quits.
template <class Self>
void finish(Self* self, const assignment& job, work_result result) {
  post(self, std::move(result)).send(job.slot);
  self->quit();
}

} // namespace leasehold
