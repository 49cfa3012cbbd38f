// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/messages.hpp"
#include "leasehold/observer.hpp"
#include "leasehold/random.hpp"
#include "leasehold/run_end.hpp"
#include "leasehold/work.hpp"

#include <memory>
#include <optional>
#include <string>

namespace leasehold {

/// Pauses and limits of a pool's slots. Zero or less means the default.
struct slot_timing {
  /// After the lease was found held by somebody else; up to 20 % longer, so
  /// that many slots ask the store together. Shorter if the store says that
  /// the lease ends sooner.
  duration idle = std::chrono::seconds{1};

  /// After success; up to 20 % longer.
  duration rerun = std::chrono::seconds{1};

  /// After a failure.
  duration backoff = std::chrono::seconds{1};

  /// For the final checkpoint and the release together.
  duration cleanup = std::chrono::seconds{5};

  /// How long work may take to stop when it is asked to. After a loss it is
  /// cut to what is left of the window.
  duration grace = std::chrono::seconds{10};
};

namespace internal {

/// What all slots of a pool share.
struct slot_options {
  lease_actor lease;
  worker_factory work;
  slot_timing timing;
  pool_observer_ptr observer;
  random_source_ptr random;

  /// Whether to leave the waiting for a lease to the LEASE, which asks the
  /// store for all of its callers at once. Not where permits are scarce: a
  /// slot that waits would keep one from a slot that could work.
  bool wait = false;
};

/// Fills in defaults for what is zero or less; cuts the rest to max_duration.
slot_timing completed(slot_timing timing);

using slot_impl
  = typed_actor<caf::result<void>(work_result), caf::result<void>(slot_stop),
                // From POOL.
                caf::result<void>(slot_go), caf::result<void>(slot_wake),
                // From RUNNER.
                caf::result<run_report>(run_once),
                // To itself: a grace is over.
                caf::result<void>(wake)>;

/// What a SLOT tells its POOL.
using slot_keeper
  = typed_actor<caf::result<void>(slot_wants), caf::result<void>(slot_is),
                caf::result<void>(slot_sleeps)>;

/// One work ID of a pool: acquire, start the worker, watch it and the HOLD,
/// store the final state, release, pause, again. For a RUNNER, without a pool,
/// all of that once.
///
///     idle -go-> acquiring -granted-> running -worker down-> stopping -+
///      ^  ^          |                                                 |
///      |  '---held---'                                                 |
///      '--------------- pause or permit <------------------------------'
///
/// Ends retired, dead or stopped, and normally; it never ends while its worker
/// lives, unless a worker function ignores its stop flag past the grace of a
/// shutdown.
class slot : public slot_impl::base {
public:
  slot(caf::actor_config& cfg, std::string work_id, std::uint32_t index,
       slot_keeper pool, std::shared_ptr<const slot_options> options);

  const char* name() const override;

protected:
  behavior_type make_behavior() override;

  void on_exit() override;

private:
  using time_point = caf::actor_clock::time_point;

  /// What a RUNNER waits for.
  struct single_run {
    run_work call;
    caf::typed_response_promise<run_report> promise;
  };

  /// From the grant to the end of the release.
  struct run {
    grant held;
    std::shared_ptr<work_control> control;
    caf::actor worker;
    std::optional<work_result> result;
    /// No work was started.
    bool unused = false;
    /// Why the HOLD ended before the worker did.
    ec lost = ec::none;
    ec lost_also = ec::none;
    std::string lost_detail;
    /// When the next, harsher, step against the worker is due.
    std::optional<time_point> escalate_at;
    /// How often that was.
    int escalations = 0;
    run_plan plan;
    exit_mode recorded = exit_mode::none;
    /// For people, about whatever decided the result.
    std::string detail;
    time_point cleanup_end;
  };

  void stop(stop_mode how);

  void acquire();

  void on_refusal(const caf::error& why);

  void begin(grant& won);

  void on_hold_down(const caf::error& reason);

  void on_worker_down(const caf::error& reason);

  /// The worker is asked to stop; gives it `grace`.
  void ask_worker(const caf::error& reason, duration grace);

  /// No later than that, and than was decided before: a stop must not put off
  /// what a loss has set.
  void escalate_in(duration pause);

  void escalate();

  void conclude();

  void store_final_state();

  void release();

  void settle(ec result);

  void sleep(slot_phase phase, duration pause);

  void end(slot_phase how);

  /// Answers the RUNNER, and ends.
  void report(run_report result);

  void tell(slot_phase phase, bool permit);

  std::string work_id_;
  std::uint32_t index_;
  slot_keeper pool_;
  std::shared_ptr<const slot_options> options_;
  watches watches_;
  std::unique_ptr<run> run_;
  /// Null in a pool.
  std::unique_ptr<single_run> single_;
  /// Names the acquire that is on its way, to cancel it.
  std::uint64_t ticket_ = 0;
  bool acquiring_ = false;
  bool stopping_ = false;
  bool ended_ = false;
};

} // namespace internal

} // namespace leasehold
