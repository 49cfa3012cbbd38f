// SPDX-License-Identifier: Apache-2.0
#include "leasehold/run_end.hpp"

namespace leasehold::internal {

namespace {

// Success and retirement are the two ways in which work did not fail.
bool did_not_fail(ec work) {
  return work == ec::none || work == ec::retire;
}

} // namespace

run_plan plan_end(const run_facts& facts) {
  run_plan plan;
  plan.work = facts.work;
  if (facts.work == ec::fenced || facts.lost == ec::fenced) {
    plan.result = ec::fenced;
    return plan;
  }
  if (facts.lost != ec::none) {
    plan.result = facts.work == ec::none ? facts.lost : facts.work;
    return plan;
  }
  if (facts.work == ec::work_threw) {
    plan.result = ec::work_threw;
    return plan;
  }
  plan.checkpoint = facts.has_state;
  switch (facts.work) {
    case ec::none:
      plan.release = exit_mode::finished;
      break;
    case ec::retire:
      plan.release = exit_mode::retired;
      break;
    default:
      plan.release = exit_mode::abandoned;
      plan.result = facts.work;
      break;
  }
  return plan;
}

run_plan after_checkpoint(run_plan plan, ec got) {
  plan.checkpoint = false;
  if (got == ec::none)
    return plan;
  if (got == ec::fenced) {
    plan.release = exit_mode::none;
    plan.result = ec::fenced;
    return plan;
  }
  plan.release = exit_mode::abandoned;
  if (did_not_fail(plan.work))
    plan.result = got;
  return plan;
}

ec after_release(const run_plan& plan, ec got) {
  if (got == ec::fenced)
    return ec::fenced;
  return plan.result == ec::none ? got : plan.result;
}

bool is_loss(ec code) {
  return code == ec::fenced || code == ec::lease_window_exhausted;
}

exit_mode unused_exit(exit_mode found) {
  return is_declarable(found) ? found : exit_mode::abandoned;
}

next_step after_run(ec result, exit_mode recorded) {
  if (result == ec::none)
    return recorded == exit_mode::retired ? next_step::retire
                                          : next_step::rerun;
  if (result == ec::fenced)
    return next_step::again;
  if (result == ec::work_permanent)
    return next_step::die;
  return next_step::backoff;
}

} // namespace leasehold::internal
