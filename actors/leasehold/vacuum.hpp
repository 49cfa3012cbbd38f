// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/messages.hpp"
#include "leasehold/observer.hpp"

namespace leasehold {

/// What a VACUUM is built from.
struct vacuum_options {
  backend_actor store;

  /// Rows that were last updated longer ago than this may go. Above zero. Not
  /// tied to any ttl.
  duration retention{0};

  /// Also rows whose holder vanished without declaring anything. Finished and
  /// abandoned rows, and held ones, are never deleted.
  bool include_expired = false;

  /// Pause between sweeps; the first one comes after the first pause. Zero or
  /// less: only on sweep_now.
  duration every{0};

  /// Longest wait for one sweep.
  duration timeout = std::chrono::minutes{1};

  /// May be null.
  vacuum_observer_ptr observer;
};

/// nil_backend, then retention_required, both matching config_invalid; or no
/// error.
caf::error check(const vacuum_options& options);

namespace internal {

using vacuum_impl = typed_actor<caf::result<swept>(sweep_now),
                                // To itself: the pause is over.
                                caf::result<void>(wake)>;

/// See vacuum_actor.
class vacuum : public vacuum_impl::base {
public:
  vacuum(caf::actor_config& cfg, vacuum_options options);

  const char* name() const override;

protected:
  behavior_type make_behavior() override;

  void on_exit() override;

private:
  void schedule();

  /// Asks the store; `then` gets its answer.
  void sweep(std::function<void(const backend::sweep_result&)> then);

  vacuum_options options_;
};

} // namespace internal

/// Spawns a VACUUM; end it by exit message. See `check` for the errors. Any
/// number of processes may sweep the same store.
caf::expected<vacuum_actor> spawn_vacuum(caf::actor_system& sys,
                                         vacuum_options options);

} // namespace leasehold
