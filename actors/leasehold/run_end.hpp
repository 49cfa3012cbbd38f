// SPDX-License-Identifier: Apache-2.0
//
// What the end of a run means. Decisions only: plain values in, plain values
// out, so that every row can be tested without an actor.
#pragma once

#include "leasehold/error.hpp"
#include "leasehold/exit_mode.hpp"

namespace leasehold::internal {

/// How a run ended, as its SLOT saw it.
struct run_facts {
  /// What the work said: none, retire, or an error.
  ec work = ec::none;

  /// Why the lease was lost: fenced, lease_window_exhausted, or none.
  ec lost = ec::none;

  /// Whether the work returned a state (an empty one included).
  bool has_state = false;
};

/// What is to be done about it.
struct run_plan {
  /// Store the returned state first.
  bool checkpoint = false;

  /// Then release with this mode; none = leave the lease alone.
  exit_mode release = exit_mode::none;

  /// What the run amounts to if all of that succeeds; none = success.
  ec result = ec::none;

  /// What the work itself said; decides which error wins later.
  ec work = ec::none;
};

/// Fenced comes first, then a lost window, then what the work said. What is
/// lost is neither stored nor released: the successor must read `expired`.
run_plan plan_end(const run_facts& facts);

/// The plan after its checkpoint was answered with `got`.
run_plan after_checkpoint(run_plan plan, ec got);

/// The result after the release was answered with `got`.
ec after_release(const run_plan& plan, ec got);

/// Whether `code` says that the lease itself was lost.
bool is_loss(ec code);

/// What to declare for a lease that was granted but not used: the exit that was
/// found, so that work that was finished or retired does not read as a partial
/// run; abandoned if that cannot be declared.
exit_mode unused_exit(exit_mode found);

enum class next_step {
  /// Success: pause for `rerun`, then run again.
  rerun,
  /// Lost to a successor: acquire again at once.
  again,
  /// Failure: report it, pause for `backoff`, then run again.
  backoff,
  /// The slot is done for good.
  retire,
  /// No run will help: the slot ends.
  die,
};

/// What a pool's slot does after a run with this result. `recorded` is the
/// exit that was stored, none if none was.
next_step after_run(ec result, exit_mode recorded);

} // namespace leasehold::internal
