// SPDX-License-Identifier: Apache-2.0
#include "leasehold/pool.hpp"

#include "support/pool_world.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;
using namespace std::chrono_literals;

using leasehold::test::puppet;

namespace {

using fixture = test::pool_world;

} // namespace

BOOST_FIXTURE_TEST_SUITE(pool_suite, fixture)

// contract 172 and A10, A11 of its decisions
BOOST_AUTO_TEST_CASE(refuses_options_that_cannot_work) {
  auto check_code = [&](std::function<void(pool_options&)> change, ec code) {
    auto options = options_for_pool({"w"});
    change(options);
    auto err = check(options);
    BOOST_TEST(matches(err, code));
    BOOST_TEST(matches(err, ec::pool_config_invalid));
    BOOST_TEST(matches(err, ec::config_invalid));
    BOOST_TEST(!spawn_pool(sys, options));
  };
  check_code([](auto& x) { x.lease = nullptr; }, ec::pool_lease_required);
  check_code([](auto& x) { x.work_ids.clear(); }, ec::pool_empty_work_ids);
  check_code([](auto& x) { x.work_ids = {"a", ""}; }, ec::pool_empty_work_id);
  check_code(
    [](auto& x) {
      x.work_ids = {"a", "b", "b", "a"};
    },
    ec::pool_duplicate_work_id);
  check_code([](auto& x) { x.work = nullptr; }, ec::pool_work_fn_required);
  auto options = options_for_pool({"a", "b", "b", "a"});
  BOOST_TEST(detail_of(check(options)).find("\"b\"") != std::string::npos);
}

// contract 173
BOOST_AUTO_TEST_CASE(starts_nothing_before_it_is_run) {
  make(options_for_pool({"w"}));
  advance(1min);
  BOOST_TEST(script->calls == 0);
}

// contract 127, 176, 195
BOOST_AUTO_TEST_CASE(hands_the_predecessors_state_to_the_worker) {
  auto b = node("node-b");
  auto before = acquire(b, "w");
  ask<confirmation>(b, checkpoint_request{before.tok, "half"});
  ask<confirmation>(b, release_request{before.tok, exit_mode::abandoned});
  run_it(make(options_for_pool({"w"})));
  auto& job = jobs.at("w");
  BOOST_TEST(job.tok.work_id() == "w");
  BOOST_TEST(job.found.state.value() == "half");
  BOOST_TEST((job.found.exit == exit_mode::abandoned));
  BOOST_TEST(job.found.holder_id == "node-b");
  BOOST_TEST(logged("acquired w"));
}

// contract 123
BOOST_AUTO_TEST_CASE(a_run_takes_its_steps_in_order) {
  run_it(make(options_for_pool({"w"})));
  advance(15s);
  tell("w", succeeded("all"));
  std::vector<std::string> steps;
  for (auto& op : script->seen)
    steps.push_back(to_string(op.kind));
  // What the predecessor left comes with the grant.
  std::vector<std::string> want{"acquire", "renew", "checkpoint", "release"};
  BOOST_TEST(steps == want, boost::test_tools::per_element());
}

// contract 136
BOOST_AUTO_TEST_CASE(nothing_is_renewed_once_the_work_has_ended) {
  run_it(make(options_for_pool({"w"})));
  advance(14s);
  // The final checkpoint takes until after the next renewal would be due.
  script->during = [this] { advance(3s); };
  tell("w", succeeded("all"));
  advance(100ms);
  BOOST_TEST((row_of("w")->exit == exit_mode::finished));
  BOOST_TEST(script->count(backend::op_kind::renew) == 0u);
}

// contract 175
BOOST_AUTO_TEST_CASE(each_work_id_has_a_slot_that_goes_round_and_round) {
  run_it(make(options_for_pool({"v", "w"})));
  for (int round = 1; round <= 5; ++round) {
    BOOST_TEST(starts == 2 * round);
    for (auto id : {"v", "w"})
      tell(id, round % 2 == 0 ? succeeded() : failed("x"));
    advance(1200ms);
  }
}

// contract 128, 149, 178
BOOST_AUTO_TEST_CASE(success_is_stored_released_and_run_again) {
  run_it(make(options_for_pool({"w"})));
  BOOST_TEST((jobs.at("w").found == prior{}));
  tell("w", succeeded("all"));
  BOOST_TEST((row_of("w")->exit == exit_mode::finished));
  BOOST_TEST(row_of("w")->state.value() == "all");
  BOOST_TEST(starts == 1);
  advance(1s - 1ms);
  BOOST_TEST(starts == 1);
  advance(201ms);
  BOOST_TEST(starts == 2);
  BOOST_TEST(
    (jobs.at("w").found == prior{"all", exit_mode::finished, "node-a"}));
  std::vector<std::string> want{"acquired w", "released w finished",
                                "acquired w"};
  BOOST_TEST(log->events == want, boost::test_tools::per_element());
}

// contract 130, 179
BOOST_AUTO_TEST_CASE(failure_is_reported_and_retried_after_the_backoff) {
  run_it(make(options_for_pool({"w"})));
  tell("w", failed("no disk", "part"));
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
  BOOST_TEST(row_of("w")->state.value() == "part");
  BOOST_TEST(logged("backoff w work_failed 1s"));
  advance(1s - 1ms);
  BOOST_TEST(starts == 1);
  advance(1ms);
  BOOST_TEST(starts == 2);
}

// contract 129, 183, 189
BOOST_AUTO_TEST_CASE(retired_work_ends_its_slot_for_good) {
  auto out = run_it(make(options_for_pool({"w"})));
  tell("w", retired("done"));
  BOOST_TEST((row_of("w")->exit == exit_mode::retired));
  BOOST_TEST(logged("retired w"));
  BOOST_TEST_REQUIRE(out->ended);
  BOOST_TEST(out->result.value().retired == 1u);
  advance(1h);
  BOOST_TEST(starts == 1);
}

// contract 184, 188
BOOST_AUTO_TEST_CASE(a_permanent_error_ends_the_slot_and_then_the_pool) {
  auto out = run_it(make(options_for_pool({"v", "w"})));
  tell("v", failed_for_good("bad input"));
  BOOST_TEST(logged("dead v work_permanent"));
  BOOST_TEST(!out->ended);
  tell("w", failed_for_good("bad input"));
  BOOST_TEST_REQUIRE(out->ended);
  BOOST_TEST(matches(out->failed, ec::pool_all_slots_dead));
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
}

// contract 189
BOOST_AUTO_TEST_CASE(one_retired_slot_makes_the_pool_succeed) {
  auto out = run_it(make(options_for_pool({"v", "w"})));
  tell("v", failed_for_good("bad input"));
  tell("w", retired());
  BOOST_TEST_REQUIRE(out->result.has_value());
  BOOST_TEST(out->result->retired == 1u);
  BOOST_TEST(out->result->dead == 1u);
}

// contract 180
BOOST_AUTO_TEST_CASE(pauses_of_nothing_or_less_mean_a_second) {
  for (auto pause : {duration{0}, duration{-5s}}) {
    starts = 0;
    auto b = node("node-b");
    auto held = acquire(b, "held");
    auto options = options_for_pool({"done", "failed", "held"});
    options.timing.idle = options.timing.rerun = options.timing.backoff = pause;
    auto pool = make(options);
    run_it(pool);
    BOOST_TEST(starts == 2);
    tell("done", succeeded());
    tell("failed", failed("x"));
    ask<confirmation>(b, release_request{held.tok, exit_mode::finished});
    advance(1s - 1ms);
    BOOST_TEST(starts == 2);
    advance(1ms);
    BOOST_TEST(starts >= 3);
    advance(200ms);
    BOOST_TEST(starts == 5);
    post_anon(pool, stop_pool{});
    run();
  }
}

// contract 177
BOOST_AUTO_TEST_CASE(what_others_hold_is_tried_quietly_at_intervals) {
  auto b = node("node-b");
  auto held = acquire(b, "w");
  run_it(make(options_for_pool({"w"})));
  advance(60s);
  auto attempts = script->count(backend::op_kind::acquire) - 1;
  BOOST_TEST(attempts >= 50u);
  BOOST_TEST(attempts <= 61u);
  BOOST_TEST(log->events.empty());
  ask<confirmation>(b, release_request{held.tok, exit_mode::abandoned});
  advance(1200ms);
  BOOST_TEST(logged("acquired w"));
}

// contract 124, 179
BOOST_AUTO_TEST_CASE(a_store_that_is_down_is_a_backoff) {
  script->refuse = ec::unavailable;
  run_it(make(options_for_pool({"w"})));
  BOOST_TEST(logged("backoff w unavailable 1s"));
  BOOST_TEST(starts == 0);
  BOOST_TEST(script->count(backend::op_kind::release) == 0u);
  script->refuse = ec::none;
  advance(1s);
  BOOST_TEST(starts == 1);
}

// contract 131, 182: the heart of it
BOOST_AUTO_TEST_CASE(fencing_ends_the_worker_by_a_down_message) {
  run_it(make(options_for_pool({"w"})));
  auto down = watch(workers.at("w"));
  auto control = jobs.at("w").control;
  BOOST_TEST(!control->stop_requested());
  steal("w");
  advance(15s);
  BOOST_TEST_REQUIRE(down->reason.has_value());
  BOOST_TEST(matches(*down->reason, ec::fenced));
  BOOST_TEST(control->stop_requested());
  BOOST_TEST(logged("lost w fenced"));
  BOOST_TEST(row_of("w")->holder_id == "thief");
  BOOST_TEST(!row_of("w")->state.has_value());
}

// contract 132, 179 and A12 of its decisions
BOOST_AUTO_TEST_CASE(a_lost_window_ends_the_worker_without_the_store) {
  run_it(make(options_for_pool({"w"})));
  auto down = watch(workers.at("w"));
  auto window = jobs.at("w").window;
  *line_is_up = false;
  advance(30s - 1ms);
  BOOST_TEST(!down->reason.has_value());
  advance(1ms);
  BOOST_TEST_REQUIRE(down->reason.has_value());
  BOOST_TEST(matches(*down->reason, ec::lease_window_exhausted));
  BOOST_TEST(logged("backoff w lease_window_exhausted 1s"));
  *line_is_up = true;
  advance(10s);
  BOOST_TEST(starts == 2);
  BOOST_TEST((jobs.at("w").found.exit == exit_mode::expired));
}

// contract 145 and A16 of its decisions
BOOST_AUTO_TEST_CASE(work_that_throws_releases_nothing) {
  run_it(make(options_for_pool({"w"})));
  post_anon(workers.at("w"), std::string{"throw"});
  run();
  BOOST_TEST((row_of("w")->exit == exit_mode::none));
  BOOST_TEST(logged("backoff w work_threw 1s"));
  advance(10s);
  BOOST_TEST(starts == 1); // Nobody has it, but nobody said so either.
  auto before = script->count(backend::op_kind::renew);
  advance(10s);
  BOOST_TEST(script->count(backend::op_kind::renew) == before);
  advance(13s);
  BOOST_TEST(starts == 2);
  BOOST_TEST((jobs.at("w").found.exit == exit_mode::expired));
}

BOOST_AUTO_TEST_CASE(a_factory_that_throws_is_work_that_threw) {
  auto options = options_for_pool({"w"});
  options.work = [](caf::actor_system&, assignment) -> caf::actor {
    throw std::runtime_error("no thread");
  };
  run_it(make(options));
  BOOST_TEST(logged("backoff w work_threw 1s"));
}

BOOST_AUTO_TEST_CASE(a_factory_may_throw_anything) {
  auto options = options_for_pool({"w"});
  options.work = [](caf::actor_system&, assignment) -> caf::actor { throw 42; };
  run_it(make(options));
  BOOST_TEST(logged("backoff w work_threw 1s"));
}

BOOST_AUTO_TEST_CASE(a_grant_that_was_long_on_its_way_is_not_lost) {
  auto slow = options_for("node-b");
  slow.ttl = 1h;
  slow.store_timeout = 10min;
  auto options = options_for_pool({"w"});
  options.lease = spawn_lease(slow);
  script->during = [this] { advance(3min); };
  run_it(make(options));
  BOOST_TEST(starts == 1);
  BOOST_TEST(log->events.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_factory_without_a_worker_is_work_that_threw) {
  auto options = options_for_pool({"w"});
  options.work = [](caf::actor_system&, assignment) { return caf::actor{}; };
  run_it(make(options));
  BOOST_TEST(logged("backoff w work_threw 1s"));
}

// contract 197: no work ID is orphaned, whatever happens to its slot
BOOST_AUTO_TEST_CASE(a_slot_that_failed_is_replaced_and_its_lease_lapses) {
  struct throws_in_the_middle : test::recording_pool_observer {
    bool thrown = false;

    void on_slot_acquired(const token& tok, const prior& found) override {
      test::recording_pool_observer::on_slot_acquired(tok, found);
      if (!std::exchange(thrown, true))
        throw std::runtime_error("a bad observer");
    }
  };

  auto options = options_for_pool({"w"});
  options.observer = std::make_shared<throws_in_the_middle>();
  run_it(make(options));
  BOOST_TEST(starts == 0);
  advance(33s);
  BOOST_TEST(starts == 1);
  BOOST_TEST((jobs.at("w").found.exit == exit_mode::expired));
}

BOOST_AUTO_TEST_CASE(stopping_at_once_does_not_release_under_a_live_worker) {
  // A worker that needs a moment to end what it owns.
  on_stop = [](puppet*) {};
  auto pool = make(options_for_pool({"w"}));
  auto out = run_it(pool);
  post_anon(pool, stop_pool{stop_mode::now});
  advance(400ms);
  BOOST_TEST(!out->ended);
  BOOST_TEST((row_of("w")->exit == exit_mode::none));
  tell("w", {ec::cancelled, "all gone", {}});
  BOOST_TEST(out->ended);
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
}

BOOST_AUTO_TEST_CASE(a_worker_may_just_quit_with_a_code) {
  run_it(make(options_for_pool({"v", "w"})));
  post_anon(workers.at("v"), ec::retire);
  run();
  BOOST_TEST(logged("retired v"));
  self->send_exit(workers.at("w"), caf::exit_reason::kill);
  run();
  BOOST_TEST(logged("backoff w work_failed 1s"));
}

// contract 148
BOOST_AUTO_TEST_CASE(checkpoints_of_the_work_stay_when_it_returns_no_state) {
  run_it(make(options_for_pool({"w"})));
  post_anon(workers.at("w"), std::string{"line 40"});
  run();
  tell("w", succeeded());
  BOOST_TEST(row_of("w")->state.value() == "line 40");
}

// contract 137, 190, 192
BOOST_AUTO_TEST_CASE(a_stopped_pool_abandons_what_it_did_not_finish) {
  on_stop = [](puppet* me) {
    me->end({ec::cancelled, "asked to stop", "so far"});
  };
  auto pool = make(options_for_pool({"v", "w"}));
  auto out = run_it(pool);
  post_anon(pool, stop_pool{});
  run();
  BOOST_TEST_REQUIRE(out->ended);
  BOOST_TEST(out->result.has_value());
  for (auto id : {"v", "w"}) {
    BOOST_TEST((row_of(id)->exit == exit_mode::abandoned));
    BOOST_TEST(row_of(id)->state.value() == "so far");
  }
  auto next = acquire(node("node-b"), "w");
  BOOST_TEST(next.found.state.value() == "so far");
}

// contract 174
BOOST_AUTO_TEST_CASE(a_run_is_answered_after_the_last_slot_has_released) {
  on_stop = [](puppet*) {}; // Takes its time.
  auto pool = make(options_for_pool({"v", "w"}));
  auto at_answer = std::make_shared<std::vector<backend::row>>();
  spawn_fn([this, pool, at_answer](caf::event_based_actor* me) {
    post(me, run_pool{})
      .request(pool, 10000h)
      .then([this, at_answer](const pool_result&) {
        for (auto id : {"v", "w"})
          at_answer->push_back(row_of(id).value());
      });
    return caf::behavior{[](int) {}};
  });
  run();
  advance(1h);
  BOOST_TEST(at_answer->empty());
  post_anon(pool, stop_pool{});
  run();
  tell("v", {ec::cancelled, "asked to stop", "so far"});
  BOOST_TEST(at_answer->empty());
  tell("w", {ec::cancelled, "asked to stop", "so far"});
  BOOST_TEST_REQUIRE(at_answer->size() == 2u);
  for (auto& row : *at_answer) {
    BOOST_TEST((row.exit == exit_mode::abandoned));
    BOOST_TEST(row.state.value() == "so far");
  }
}

// contract 191
BOOST_AUTO_TEST_CASE(a_stop_does_not_hide_that_all_slots_had_died) {
  auto pool = make(options_for_pool({"v", "w"}));
  auto out = run_it(pool);
  tell("v", failed_for_good("bad input"));
  post_anon(workers.at("w"), failed_for_good("bad input"));
  // As soon as the last death is counted, and before anything else.
  while (!logged("dead w work_permanent"))
    BOOST_TEST_REQUIRE(step());
  run();
  post_anon(pool, stop_pool{});
  run();
  BOOST_TEST_REQUIRE(out->ended);
  BOOST_TEST(matches(out->failed, ec::pool_all_slots_dead));
  // In the same instant, either answer is right.
  auto again = run_it(pool);
  for (auto id : {"v", "w"})
    post_anon(workers.at(id), failed_for_good("bad input"));
  post_anon(pool, stop_pool{});
  run();
  BOOST_TEST_REQUIRE(again->ended);
  BOOST_TEST(
    (again->result || matches(again->failed, ec::pool_all_slots_dead)));
}

// contract 146
BOOST_AUTO_TEST_CASE(work_that_finishes_while_stopping_is_finished) {
  on_stop = [](puppet* me) { me->end(succeeded("all")); };
  auto pool = make(options_for_pool({"w"}));
  auto out = run_it(pool);
  post_anon(pool, stop_pool{});
  run();
  BOOST_TEST(out->result.has_value());
  BOOST_TEST((row_of("w")->exit == exit_mode::finished));
}

BOOST_AUTO_TEST_CASE(the_lease_is_renewed_until_the_work_has_returned) {
  on_stop = [](puppet*) {}; // Takes its time.
  auto options = options_for_pool({"w"});
  options.timing.grace = 10min;
  auto pool = make(options);
  run_it(pool);
  post_anon(pool, stop_pool{});
  advance(5min);
  BOOST_TEST(row_of("w")->expires_us > store_now());
  BOOST_TEST((row_of("w")->exit == exit_mode::none));
  tell("w", succeeded("late but whole"));
  BOOST_TEST((row_of("w")->exit == exit_mode::finished));
}

BOOST_AUTO_TEST_CASE(work_that_does_not_stop_is_killed_after_its_grace) {
  on_stop = [](puppet*) {};
  auto pool = make(options_for_pool({"w"}));
  auto out = run_it(pool);
  auto down = watch(workers.at("w"));
  post_anon(pool, stop_pool{});
  advance(10s);
  BOOST_TEST(!down->reason.has_value());
  advance(1s);
  BOOST_TEST(down->reason.has_value());
  BOOST_TEST_REQUIRE(out->ended);
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
}

BOOST_AUTO_TEST_CASE(a_grace_may_last_for_ever) {
  on_stop = [](puppet*) {};
  auto options = options_for_pool({"w"});
  options.timing.grace = options.timing.cleanup = duration::max();
  auto pool = make(options);
  auto out = run_it(pool);
  auto down = watch(workers.at("w"));
  post_anon(pool, stop_pool{});
  advance(24h);
  BOOST_TEST(!down->reason.has_value());
  tell("w", succeeded());
  BOOST_TEST(out->ended);
  BOOST_TEST((row_of("w")->exit == exit_mode::finished));
}

BOOST_AUTO_TEST_CASE(stopping_again_does_not_give_more_time) {
  on_stop = [](puppet*) {};
  auto pool = make(options_for_pool({"w"}));
  run_it(pool);
  auto down = watch(workers.at("w"));
  for (int i = 0; i < 4; ++i) {
    post_anon(pool, stop_pool{});
    advance(4s);
  }
  BOOST_TEST(down->reason.has_value());
}

BOOST_AUTO_TEST_CASE(a_stop_does_not_put_off_the_end_after_a_loss) {
  // A worker that does not watch its HOLD and ignores every wish.
  struct deaf : caf::event_based_actor {
    using caf::event_based_actor::event_based_actor;

    caf::behavior make_behavior() override {
      return exit_aware(
        this, [](caf::exit_msg&) {}, [](int) {});
    }
  };

  auto options = options_for_pool({"w"});
  options.work = [this](caf::actor_system& system, assignment) {
    return workers["w"] = track(caf::actor{system.spawn<deaf>()});
  };
  auto pool = make(options);
  run_it(pool);
  auto down = watch(workers.at("w"));
  *line_is_up = false;
  advance(30s);
  post_anon(pool, stop_pool{});
  advance(2s);
  BOOST_TEST(down->reason.has_value());
}

// contract 193
BOOST_AUTO_TEST_CASE(every_pause_ends_at_once_when_the_pool_is_stopped) {
  auto b = node("node-b");
  acquire(b, "held");
  auto options = options_for_pool({"held", "failed", "finished"});
  options.timing.idle = options.timing.backoff = options.timing.rerun = 1h;
  auto pool = make(options);
  auto out = run_it(pool);
  tell("failed", failed("x"));
  tell("finished", succeeded());
  post_anon(pool, stop_pool{});
  run();
  BOOST_TEST(out->ended);
}

// contract 139
BOOST_AUTO_TEST_CASE(a_silent_store_delays_the_end_by_the_cleanup_time_only) {
  on_stop = [](puppet* me) { me->end(succeeded("all")); };
  auto pool = make(options_for_pool({"w"}));
  auto out = run_it(pool);
  *line_is_up = false;
  post_anon(pool, stop_pool{});
  advance(5s - 1ms);
  BOOST_TEST(!out->ended);
  advance(1ms);
  BOOST_TEST(out->ended);
}

// contract 138
BOOST_AUTO_TEST_CASE(final_checkpoint_and_release_share_their_time) {
  for (auto cleanup : {duration{0}, duration{-1s}, duration{7s}}) {
    auto options = options_for_pool({"w"});
    options.timing.cleanup = cleanup;
    on_stop = [](puppet* me) { me->end(succeeded("all")); };
    auto pool = make(options);
    auto out = run_it(pool);
    auto limit = cleanup > 0s ? cleanup : duration{5s};
    // The checkpoint takes almost all of it, and the release has no answer.
    script->during = [this, limit] {
      *line_is_up = false;
      set_time(base::now() + limit - 1s);
    };
    post_anon(pool, stop_pool{});
    run();
    BOOST_TEST(row_of("w")->state.value() == "all");
    advance(1s - 1ms);
    BOOST_TEST(!out->ended);
    advance(1ms);
    BOOST_TEST(out->ended);
    *line_is_up = true;
    advance(1min);
  }
}

BOOST_AUTO_TEST_CASE(a_stop_while_acquiring_leaves_retired_work_retired) {
  auto before = acquire(a, "w");
  ask<confirmation>(a, release_request{before.tok, exit_mode::retired});
  auto pool = make(options_for_pool({"w"}));
  script->during = [pool] { post_anon(pool, stop_pool{}); };
  auto out = run_it(pool);
  BOOST_TEST(out->ended);
  BOOST_TEST(starts == 0);
  BOOST_TEST(row_of("w")->number > before.tok.number());
  BOOST_TEST((row_of("w")->exit == exit_mode::retired));
}

// contract 137, 192: however a pool ends
BOOST_AUTO_TEST_CASE(a_pool_that_ends_by_an_exit_message_ends_its_work_first) {
  on_stop = [](puppet* me) {
    me->end({ec::cancelled, "asked to stop", "so far"});
  };
  auto pool = make(options_for_pool({"w"}));
  auto out = run_it(pool);
  auto control = jobs.at("w").control;
  self->send_exit(pool, caf::exit_reason::user_shutdown);
  run();
  BOOST_TEST(matches(out->failed, ec::cancelled));
  BOOST_TEST(control->stop_requested());
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
  BOOST_TEST(row_of("w")->state.value_or("none") == "so far");
}

BOOST_AUTO_TEST_CASE(a_pool_that_ends_while_acquiring_keeps_nothing) {
  auto pool = make(options_for_pool({"w"}));
  script->during
    = [this, pool] { self->send_exit(pool, caf::exit_reason::user_shutdown); };
  run_it(pool);
  BOOST_TEST(starts == 0);
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
}

// contract 194
BOOST_AUTO_TEST_CASE(active_slots_are_those_whose_work_executes) {
  auto b = node("node-b");
  acquire(b, "held");
  auto pool = make(options_for_pool({"held", "v", "w"}));
  BOOST_TEST(active(pool).empty());
  run_it(pool);
  std::vector<std::string> want{"v", "w"};
  BOOST_TEST(active(pool) == want, boost::test_tools::per_element());
  tell("v", failed("x"));
  BOOST_TEST(active(pool).size() == 1u);
}

BOOST_AUTO_TEST_CASE(holds_no_more_than_it_may) {
  auto options = options_for_pool({"a", "b", "c", "d", "e"});
  options.max_held = 2;
  auto pool = make(options);
  run_it(pool);
  BOOST_TEST(active(pool).size() == 2u);
  tell(active(pool).front(), succeeded());
  BOOST_TEST(active(pool).size() == 2u);
  BOOST_TEST(starts == 3);
  advance(10s);
  BOOST_TEST(active(pool).size() == 2u);
}

// contract 197
BOOST_AUTO_TEST_CASE(a_limited_pool_moves_on_from_what_others_hold) {
  auto b = node("node-b");
  for (auto id : {"a", "b", "c"})
    acquire(b, id);
  auto options = options_for_pool({"a", "b", "c", "d"});
  options.max_held = 1;
  auto pool = make(options);
  run_it(pool);
  std::vector<std::string> want{"d"};
  BOOST_TEST(active(pool) == want, boost::test_tools::per_element());
}

// contract 198 and A13 of its decisions
BOOST_AUTO_TEST_CASE(runs_one_at_a_time_but_any_number_in_sequence) {
  auto pool = make(options_for_pool({"w"}));
  auto first = run_it(pool);
  auto second = run_it(pool);
  BOOST_TEST(matches(second->failed, ec::pool_running));
  tell("w", retired());
  BOOST_TEST(first->ended);
  auto third = run_it(pool);
  BOOST_TEST(!third->ended);
  tell("w", retired());
  BOOST_TEST(third->result.value().retired == 1u);
}

// contract 197
BOOST_AUTO_TEST_CASE(a_second_pool_takes_over_what_a_dead_one_held) {
  run_it(make(options_for_pool({"w"})));
  post_anon(workers.at("w"), std::string{"line 40"});
  run();
  // The first process dies: all of its actors at once, without a word.
  self->send_exit(a, caf::exit_reason::kill);
  run();
  auto options = options_for_pool({"w"});
  options.lease = node("node-b");
  auto t0 = elapsed();
  run_it(make(options));
  while (starts < 2 && elapsed() - t0 < 2min)
    advance(100ms);
  BOOST_TEST_REQUIRE(starts == 2);
  BOOST_TEST((elapsed() - t0 <= 30s + 1200ms + 100ms));
  BOOST_TEST(jobs.at("w").found.state.value() == "line 40");
  BOOST_TEST((jobs.at("w").found.exit == exit_mode::expired));
}

BOOST_AUTO_TEST_SUITE_END()
