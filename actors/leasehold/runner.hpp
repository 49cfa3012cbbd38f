// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/messages.hpp"
#include "leasehold/slot.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

namespace leasehold {

/// What a RUNNER is built from.
struct runner_options {
  lease_actor lease;

  worker_factory work;

  /// For the final checkpoint and the release together. Zero or less means 5 s.
  duration cleanup = std::chrono::seconds{5};

  /// How long work may take to stop when it is asked to. After a loss it is
  /// cut to what is left of the window.
  duration grace = std::chrono::seconds{10};

  /// Null means the system's.
  random_source_ptr random;
};

/// The first problem, in this order: worker_lease_required,
/// worker_work_fn_required; or no error. Both match config_invalid.
caf::error check(const runner_options& options);

namespace internal {

using runner_impl
  = typed_actor<caf::result<run_result>(run_work), caf::result<void>(stop_runs),
                // From LEADER: as run_work, but told everything.
                caf::result<run_report>(run_once)>;

/// What the SLOTs of single runs share. Null: a silent observer, the system's
/// randomness.
std::shared_ptr<const slot_options>
single_run_options(lease_actor lease, worker_factory work, slot_timing timing,
                   random_source_ptr random,
                   pool_observer_ptr observer = nullptr);

/// See runner_actor. One SLOT per call. If it ends before them, they are
/// stopped as by stop_runs.
class runner : public runner_impl::base {
public:
  runner(caf::actor_config& cfg, std::shared_ptr<const slot_options> options);

  const char* name() const override;

protected:
  behavior_type make_behavior() override;

  void on_exit() override;

private:
  using on_report = std::function<void(run_report)>;

  struct running {
    slot_impl actor;
    std::uint64_t ticket = 0;
    on_report then;
  };

  void start(run_work call, on_report then);

  void stop(const stop_runs& request);

  void finish(std::uint64_t id, run_report got);

  std::shared_ptr<const slot_options> options_;
  std::unordered_map<std::uint64_t, running> runs_;
  std::uint64_t last_id_ = 0;
};

} // namespace internal

/// Spawns a RUNNER; nothing runs before run_work. See `check` for the errors.
caf::expected<runner_actor> spawn_runner(caf::actor_system& sys,
                                         runner_options options);

} // namespace leasehold
