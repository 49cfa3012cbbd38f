// SPDX-License-Identifier: Apache-2.0
#include "leasehold/slot.hpp"

#include "leasehold/retry.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace leasehold::internal {

namespace {

using std::chrono::duration_cast;
using namespace std::chrono_literals;

// Between the wish to stop and the kill a worker that stops on time must not
// be raced.
constexpr duration kill_slack = 500ms;

// How a worker that sent no result ended, by its exit reason.
work_result result_of(const caf::error& reason) {
  if (!reason)
    return {};
  if (auto code = error_as<ec>(reason))
    return {*code, detail_of(reason), std::nullopt};
  if (reason == caf::sec::runtime_error)
    return {ec::work_threw, "the worker ended by an exception", std::nullopt};
  return {ec::work_failed, "the worker ended: " + caf::to_string(reason),
          std::nullopt};
}

} // namespace

slot_timing completed(slot_timing timing) {
  auto fill = [](duration& x, duration standard) {
    x = x <= duration::zero() ? standard : std::min(x, max_duration);
  };
  fill(timing.idle, 1s);
  fill(timing.rerun, 1s);
  fill(timing.backoff, 1s);
  fill(timing.cleanup, 5s);
  timing.grace = std::clamp(timing.grace, duration::zero(), max_duration);
  return timing;
}

slot::slot(caf::actor_config& cfg, std::string work_id, std::uint32_t index,
           slot_keeper pool, std::shared_ptr<const slot_options> options)
  : slot_impl::base(cfg), work_id_(std::move(work_id)), index_(index),
    pool_(std::move(pool)), options_(std::move(options)), watches_(this) {
  // nop
}

const char* slot::name() const {
  return "leasehold.slot";
}

slot::behavior_type slot::make_behavior() {
  if (pool_)
    post(this, slot_wants{index_}).send(pool_);
  return {
    [this](work_result& result) {
      if (run_ && !run_->result)
        run_->result = std::move(result);
    },
    [this](const slot_stop& request) { stop(request.how); },
    [this](const slot_go&) {
      if (!stopping_ && !run_ && !acquiring_)
        acquire();
    },
    [this](const slot_wake&) {
      if (!stopping_ && !run_ && !acquiring_)
        post(this, slot_wants{index_}).send(pool_);
    },
    [this](run_once& request) -> caf::result<run_report> {
      single_ = std::make_unique<single_run>();
      single_->call = std::move(request.call);
      single_->promise = make_response_promise<run_report>();
      auto promise = single_->promise;
      acquire();
      return promise;
    },
    [this](const wake&) {
      if (run_ && run_->escalate_at && clock().now() >= *run_->escalate_at)
        escalate();
    },
  };
}

void slot::on_exit() {
  // Only if this actor failed in the middle of a run: let the lease lapse, or
  // our own process would keep it from our successor for ever.
  if (run_) {
    post_anon(options_->lease, stop_request{run_->held.tok});
    run_->control->request_stop();
    if (run_->worker)
      caf::anon_send_exit(run_->worker, caf::exit_reason::user_shutdown);
  }
  run_.reset();
  if (single_)
    single_->promise.deliver(
      fail(ec::work_threw, "its slot ended by an error"));
  single_.reset();
  pool_ = nullptr;
}

void slot::stop(stop_mode how) {
  stopping_ = true;
  if (run_ && run_->worker) {
    // Not a kill: a worker that owns more than itself, a child process say,
    // must have ended all of it before the lease is released.
    if (how == stop_mode::now)
      ask_worker(fail(ec::cancelled, "stopped at once"), duration::zero());
    else if (how == stop_mode::stop)
      ask_worker(caf::exit_reason::user_shutdown, options_->timing.grace);
  } else if (acquiring_) {
    // A grant that is on its way is given back here, before we end: nobody
    // would after us.
    post(this, cancel_acquire{ticket_, true}).send(options_->lease);
  } else if (!run_) {
    end(slot_phase::stopped);
  }
}

void slot::acquire() {
  acquiring_ = true;
  tell(slot_phase::acquiring, true);
  ticket_ = options_->random->next() | 1;
  acquire_request request;
  request.work_id = work_id_;
  request.ticket = ticket_;
  if (single_) {
    request.wait = single_->call.wait;
    request.poll = single_->call.poll;
    request.timeout = single_->call.timeout;
  } else {
    request.wait = options_->wait;
    request.poll = options_->timing.idle;
    request.spread = request.poll / 5;
  }
  // No timeout: a LEASE answers each call, also when it ends, and one that
  // waits for a lease may wait for days.
  post(this, std::move(request))
    .request(options_->lease, caf::infinite)
    .then(
      [this](grant& won) {
        acquiring_ = false;
        begin(won);
      },
      [this](const caf::error& err) {
        acquiring_ = false;
        on_refusal(err);
      });
}

void slot::on_refusal(const caf::error& why) {
  auto code = code_of(why);
  if (single_) {
    run_report none;
    none.code = code;
    none.also = also_of(why);
    none.detail = detail_of(why);
    report(std::move(none));
  } else if (stopping_) {
    end(slot_phase::stopped);
  } else if (code == ec::lease_held) {
    sleep(slot_phase::idle,
          jittered(options_->timing.idle, options_->random->fraction()));
  } else {
    auto pause = options_->timing.backoff;
    options_->observer->on_slot_backoff(work_id_, token{}, code, detail_of(why),
                                        pause);
    sleep(slot_phase::backoff, pause);
  }
}

void slot::begin(grant& won) {
  run_ = std::make_unique<run>();
  run_->held = std::move(won);
  run_->control = std::make_shared<work_control>(run_->held.window);
  if (stopping_) {
    // Granted while the pool was being stopped: give it back untouched.
    run_->unused = true;
    run_->result = work_result{ec::cancelled, "the pool was stopped", {}};
    conclude();
    return;
  }
  tell(slot_phase::running, true);
  auto& held = run_->held;
  watches_.add(this, held.hold,
               [this](const caf::error& reason) { on_hold_down(reason); });
  options_->observer->on_slot_acquired(held.tok, held.found);
  assignment job{held.tok,     held.found,      held.hold,
                 held.window,  options_->lease, slot_actor{slot_impl{this}},
                 run_->control};
  try {
    run_->worker = options_->work(system(), std::move(job));
    if (!run_->worker)
      run_->result
        = work_result{ec::work_threw, "the factory made no worker", {}};
  } catch (const std::exception& x) {
    run_->result = work_result{ec::work_threw, x.what(), {}};
  } catch (...) {
    run_->result
      = work_result{ec::work_threw, "an exception of unknown type", {}};
  }
  if (!run_->worker) {
    conclude();
    return;
  }
  watches_.add(this, run_->worker,
               [this](const caf::error& reason) { on_worker_down(reason); });
}

void slot::on_hold_down(const caf::error& reason) {
  if (!run_)
    return;
  run_->control->request_stop();
  auto code = code_of(reason);
  if (code == ec::none)
    return; // We stopped it ourselves.
  // Anything but a lease code means that the LEASE itself ended.
  run_->lost = is_loss(code) ? code : ec::cancelled;
  run_->lost_also = also_of(reason);
  run_->lost_detail = detail_of(reason);
  if (run_->worker) {
    auto left = duration_cast<duration>(run_->held.window->until_end());
    escalate_in(std::clamp(left, duration::zero(), options_->timing.grace));
  }
}

void slot::on_worker_down(const caf::error& reason) {
  if (!run_)
    return;
  run_->worker = nullptr;
  run_->escalate_at.reset();
  if (!run_->result)
    run_->result = result_of(reason);
  conclude();
}

void slot::ask_worker(const caf::error& reason, duration grace) {
  run_->control->request_stop();
  send_exit(run_->worker, reason);
  escalate_in(grace + kill_slack);
}

void slot::escalate_in(duration pause) {
  auto when = clock().now() + pause;
  if (run_->escalate_at && *run_->escalate_at <= when)
    return;
  run_->escalate_at = when;
  post(this, wake{}).delay(pause).send(slot_impl{this});
}

void slot::escalate() {
  auto step = ++run_->escalations;
  run_->escalate_at.reset();
  if (step == 1) {
    auto why = run_->lost == ec::none ? ec::cancelled : run_->lost;
    ask_worker(fail(why, run_->lost_detail), duration::zero());
    return;
  }
  if (step == 2) {
    ask_worker(caf::exit_reason::kill, duration::zero());
    return;
  }
  options_->observer->on_slot_stuck(run_->held.tok, options_->timing.grace);
  // A function that does not return cannot be helped. Nothing keeps its lease
  // alive from here on; in a shutdown nobody waits for it.
  post(this, stop_request{run_->held.tok}).send(options_->lease);
  if (stopping_) {
    auto tok = run_->held.tok;
    auto lost = is_loss(run_->lost) ? run_->lost : ec::none;
    run_.reset();
    if (single_)
      report({tok, lost == ec::none ? ec::cancelled : lost, ec::none,
              "the work did not end in its time and was left alone",
              exit_mode::none, lost});
    else
      end(slot_phase::stopped);
  }
}

void slot::conclude() {
  auto& x = *run_;
  watches_.remove(this, x.held.hold.address());
  // The HOLD's down message may still be on its way; the window knows.
  if (x.lost == ec::none)
    x.lost = x.held.window->why_lost();
  x.plan = plan_end({x.result->code, x.lost, x.result->state.has_value()});
  // Without the HOLD's word, the worker's own is the best there is.
  x.detail = x.lost_detail.empty() ? x.result->detail : x.lost_detail;
  if (x.unused && x.plan.release != exit_mode::none)
    x.plan.release = unused_exit(x.held.found.exit);
  tell(slot_phase::stopping, true);
  // Never renew after the work has ended; and what is on its way has no
  // effect any more.
  post(this, stop_request{x.held.tok}).send(options_->lease);
  x.cleanup_end = clock().now() + options_->timing.cleanup;
  if (x.plan.checkpoint)
    store_final_state();
  else
    release();
}

void slot::store_final_state() {
  post(this, checkpoint_request{run_->held.tok, std::move(run_->result->state)})
    .request(options_->lease, options_->timing.cleanup)
    .then(
      [this](const confirmation&) {
        run_->plan = after_checkpoint(run_->plan, ec::none);
        release();
      },
      [this](const caf::error& err) {
        auto code = err == caf::sec::request_timeout ? ec::deadline_exceeded
                                                     : code_of(err);
        run_->plan = after_checkpoint(run_->plan, code);
        run_->detail = render(err);
        release();
      });
}

void slot::release() {
  auto left = run_->cleanup_end - clock().now();
  if (run_->plan.release == exit_mode::none) {
    settle(run_->plan.result);
    return;
  }
  if (left <= time_point::duration::zero()) {
    settle(after_release(run_->plan, ec::deadline_exceeded));
    return;
  }
  auto mode = run_->plan.release;
  post(this, release_request{run_->held.tok, mode})
    .request(options_->lease, left)
    .then(
      [this, mode](const confirmation&) {
        run_->recorded = mode;
        options_->observer->on_slot_released(run_->held.tok, mode);
        settle(after_release(run_->plan, ec::none));
      },
      [this](const caf::error& err) {
        auto code = err == caf::sec::request_timeout ? ec::deadline_exceeded
                                                     : code_of(err);
        run_->detail = render(err);
        settle(after_release(run_->plan, code));
      });
}

void slot::settle(ec result) {
  auto ended = std::move(run_);
  auto& tok = ended->held.tok;
  if (single_) {
    auto lost = result == ec::fenced ? result : ended->lost;
    report({tok, result, result == ended->lost ? ended->lost_also : ec::none,
            ended->detail, ended->recorded, is_loss(lost) ? lost : ec::none});
    return;
  }
  auto& timing = options_->timing;
  auto& observer = *options_->observer;
  auto step = after_run(result, ended->recorded);
  if (step == next_step::again)
    observer.on_slot_lost(tok, result, ended->detail);
  if (step == next_step::retire) {
    observer.on_slot_retired(tok);
    end(slot_phase::retired);
  } else if (step == next_step::die) {
    observer.on_slot_dead(work_id_, result, ended->detail);
    end(slot_phase::dead);
  } else if (stopping_) {
    end(slot_phase::stopped);
  } else if (step == next_step::again) {
    acquire();
  } else if (step == next_step::rerun) {
    sleep(slot_phase::idle,
          jittered(timing.rerun, options_->random->fraction()));
  } else {
    observer.on_slot_backoff(work_id_, tok, result, ended->detail,
                             timing.backoff);
    sleep(slot_phase::backoff, timing.backoff);
  }
}

void slot::sleep(slot_phase phase, duration pause) {
  tell(phase, false);
  post(this, slot_sleeps{index_, pause}).send(pool_);
}

void slot::end(slot_phase how) {
  if (ended_)
    return;
  ended_ = true;
  tell(how, false);
  quit();
}

void slot::report(run_report result) {
  std::exchange(single_, nullptr)->promise.deliver(std::move(result));
  end(slot_phase::stopped);
}

void slot::tell(slot_phase phase, bool permit) {
  if (!pool_)
    return;
  post(this, slot_is{index_, phase, permit}).send(pool_);
}

} // namespace leasehold::internal
