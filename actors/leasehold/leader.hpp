// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/alarms.hpp"
#include "leasehold/messages.hpp"
#include "leasehold/runner.hpp"

#include <cstdint>
#include <unordered_map>

namespace leasehold {

/// What a LEADER is built from.
struct leader_options {
  lease_actor lease;

  /// What the leader does. It gets a token, to fence what it writes elsewhere,
  /// and may store state for its successor like any other work.
  worker_factory work;

  /// Before the answer that somebody else leads; up to 20 % longer. Zero or
  /// less means 1 s.
  duration idle = std::chrono::seconds{1};

  /// Before every other answer but fenced. Zero or less means none.
  duration backoff{0};

  /// For the final checkpoint and the release together. Zero or less means 5 s.
  duration cleanup = std::chrono::seconds{5};

  /// How long work may take to stop when it is asked to. After a loss it is
  /// cut to what is left of the window.
  duration grace = std::chrono::seconds{10};

  /// May be null.
  leader_observer_ptr observer;

  /// Null means the system's.
  random_source_ptr random;
};

/// The first problem, in this order: leader_lease_required, leader_fn_required;
/// or no error. Both match config_invalid.
caf::error check(const leader_options& options);

namespace internal {

using leader_impl
  = typed_actor<caf::result<run_result>(elect), caf::result<void>(resign),
                // To itself: look whose pause is over.
                caf::result<void>(wake)>;

/// See leader_actor. Has a RUNNER of its own; adds events and pauses.
class leader : public leader_impl::base {
public:
  leader(caf::actor_config& cfg, runner_impl runner, leader_options options);

  const char* name() const override;

protected:
  behavior_type make_behavior() override;

  void on_exit() override;

private:
  struct election {
    std::uint64_t ticket = 0;
    caf::typed_response_promise<run_result> promise;
    /// While it pauses: what will be answered.
    std::optional<run_report> got;
    /// It was resigned: no pause any more.
    bool over = false;
  };

  void start(elect& call, caf::typed_response_promise<run_result> promise);

  void on_report(std::uint64_t id, run_report got);

  void stop(const resign& request);

  void answer(std::uint64_t id);

  runner_impl runner_;
  leader_options options_;
  std::unordered_map<std::uint64_t, election> elections_;
  std::uint64_t last_id_ = 0;
  alarms<std::uint64_t> alarms_;
};

/// How long a LEADER waits before it answers with `got`.
duration pause_before(const run_report& got, const leader_options& options,
                      double fraction);

} // namespace internal

/// Spawns a LEADER; nothing runs before `elect`. See `check` for the errors.
caf::expected<leader_actor> spawn_leader(caf::actor_system& sys,
                                         leader_options options);

} // namespace leasehold
