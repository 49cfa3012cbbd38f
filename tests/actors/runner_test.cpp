// SPDX-License-Identifier: Apache-2.0
#include "leasehold/runner.hpp"

#include "support/pool_world.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;
using namespace std::chrono_literals;

using leasehold::test::puppet;

namespace {

struct fixture : test::pool_world {
  runner_actor make() {
    runner_options options;
    options.lease = a;
    options.work = puppets();
    options.random = seeded_random(1);
    auto got = spawn_runner(sys, options);
    BOOST_TEST_REQUIRE(static_cast<bool>(got));
    return track(*got);
  }

  runner_actor runner = make();

  auto start(std::string work_id, std::uint64_t ticket = 0) {
    run_work request;
    request.work_id = std::move(work_id);
    request.ticket = ticket;
    return call<run_result>(runner, std::move(request));
  }

  auto start_waiting(std::string work_id, std::uint64_t ticket = 0) {
    run_work request;
    request.work_id = std::move(work_id);
    request.wait = true;
    request.ticket = ticket;
    return call<run_result>(runner, std::move(request));
  }

  template <class Answer>
  void check_failed(const Answer& out, ec code) {
    BOOST_TEST_REQUIRE(out->ended);
    BOOST_TEST(matches(out->failed, code));
  }

  template <class Answer>
  void check_recorded(const Answer& out, exit_mode exit) {
    BOOST_TEST_REQUIRE(out->result.has_value());
    BOOST_TEST((out->result->exit == exit));
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(runner_suite, fixture)

// contract 122
BOOST_AUTO_TEST_CASE(refuses_options_that_cannot_work) {
  runner_options options;
  BOOST_TEST(matches(check(options), ec::worker_lease_required));
  BOOST_TEST(matches(check(options), ec::config_invalid));
  options.lease = a;
  BOOST_TEST(matches(check(options), ec::worker_work_fn_required));
  BOOST_TEST(matches(check(options), ec::config_invalid));
  BOOST_TEST(!spawn_runner(sys, options));
}

// contract 123, 136
BOOST_AUTO_TEST_CASE(takes_the_steps_of_a_run_in_order) {
  auto out = start("w");
  tell("w", succeeded("end"));
  BOOST_TEST(out->ended);
  std::vector<std::string> want{"acquire", "checkpoint", "release finished"};
  BOOST_TEST(seen->events == want, boost::test_tools::per_element());
  // Renewal is over: nothing comes later, however long one waits.
  advance(1h);
  BOOST_TEST(seen->events == want, boost::test_tools::per_element());
}

// contract 124
BOOST_AUTO_TEST_CASE(what_is_held_is_refused_and_nothing_runs) {
  acquire(node("node-b"), "w");
  auto out = start("w");
  check_failed(out, ec::lease_held);
  BOOST_TEST(starts == 0);
  BOOST_TEST(script->count(backend::op_kind::release) == 0u);
}

// contract 124
BOOST_AUTO_TEST_CASE(a_store_that_is_down_is_the_answer) {
  script->refuse = ec::unavailable;
  check_failed(start("w"), ec::unavailable);
  BOOST_TEST(starts == 0);
}

// contract 128, 149
BOOST_AUTO_TEST_CASE(two_runs_in_a_row_hand_over) {
  auto first = start("w");
  BOOST_TEST((jobs.at("w").found.exit == exit_mode::none));
  BOOST_TEST(!jobs.at("w").found.state.has_value());
  tell("w", succeeded("one"));
  check_recorded(first, exit_mode::finished);
  BOOST_TEST(first->result->number == jobs.at("w").tok.number());
  auto second = start("w");
  BOOST_TEST((jobs.at("w").found.exit == exit_mode::finished));
  BOOST_TEST(jobs.at("w").found.state.value() == "one");
  tell("w", succeeded());
  check_recorded(second, exit_mode::finished);
  // contract 135: no state leaves the stored one as it was
  BOOST_TEST(row_of("w")->state.value() == "one");
}

// contract 129
BOOST_AUTO_TEST_CASE(retired_work_is_a_success) {
  auto out = start("w");
  tell("w", retired("all"));
  check_recorded(out, exit_mode::retired);
  BOOST_TEST(row_of("w")->state.value() == "all");
}

// contract 130
BOOST_AUTO_TEST_CASE(failed_work_is_abandoned_and_its_error_returned) {
  auto out = start("w");
  tell("w", failed("no disk", "half"));
  check_failed(out, ec::work_failed);
  BOOST_TEST(detail_of(out->failed) == "no disk");
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
  BOOST_TEST(row_of("w")->state.value() == "half");
}

// contract 131
BOOST_AUTO_TEST_CASE(a_fenced_run_stores_nothing) {
  auto out = start("w");
  steal("w");
  advance(15s);
  check_failed(out, ec::fenced);
  BOOST_TEST(row_of("w")->holder_id == "thief");
  BOOST_TEST(script->count(backend::op_kind::checkpoint) == 0u);
}

// contract 132 and A18 of its decisions
BOOST_AUTO_TEST_CASE(a_lost_window_records_nothing) {
  auto out = start("w");
  data.share()->execute(std::vector<backend::operation>{});
  store_skew = 1h; // The store believes that the lease is over.
  advance(15s);
  check_failed(out, ec::lease_window_exhausted);
  BOOST_TEST(matches(out->failed, ec::lease_expired));
  BOOST_TEST((row_of("w")->exit == exit_mode::none));
}

// contract 141
BOOST_AUTO_TEST_CASE(a_final_state_that_cannot_be_stored_is_a_failure) {
  auto out = start("w");
  script->refuse = ec::store_failed;
  script->only = backend::op_kind::checkpoint;
  tell("w", succeeded("end"));
  check_failed(out, ec::store_failed);
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
}

// contract 142
BOOST_AUTO_TEST_CASE(a_fenced_release_outdoes_the_error_of_the_work) {
  auto out = start("w");
  steal("w");
  tell("w", failed("no disk"));
  check_failed(out, ec::fenced);
}

// contract 139
BOOST_AUTO_TEST_CASE(a_silent_store_ends_a_run_at_the_cleanup_limit) {
  auto out = start("w");
  *line_is_up = false;
  tell("w", succeeded());
  advance(5s - 1ms);
  BOOST_TEST(!out->ended);
  advance(1ms);
  check_failed(out, ec::deadline_exceeded);
}

// contract 145 and A16 of its decisions
BOOST_AUTO_TEST_CASE(work_that_throws_releases_nothing) {
  auto out = start("w");
  post_anon(workers.at("w"), std::string{"throw"});
  run();
  check_failed(out, ec::work_threw);
  BOOST_TEST((row_of("w")->exit == exit_mode::none));
  BOOST_TEST(script->count(backend::op_kind::release) == 0u);
  advance(30s + 1ms);
  auto next = acquire(node("node-b"), "w");
  BOOST_TEST((next.found.exit == exit_mode::expired));
}

// contract 137, 146
BOOST_AUTO_TEST_CASE(a_stopped_run_ends_as_its_work_says) {
  on_stop = [](puppet* me) { me->end(succeeded("in time")); };
  auto good = start("v");
  post_anon(runner, stop_runs{});
  run();
  check_recorded(good, exit_mode::finished);
  on_stop = [](puppet* me) {
    me->end({ec::cancelled, "stopped", std::string{"half"}});
  };
  auto bad = start("w");
  post_anon(runner, stop_runs{});
  run();
  check_failed(bad, ec::cancelled);
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
  BOOST_TEST(row_of("w")->state.value() == "half");
}

// contract 147
BOOST_AUTO_TEST_CASE(runs_many_units_at_once_but_one_of_each) {
  auto v = start("v");
  auto w = start("w");
  BOOST_TEST(starts == 2);
  check_failed(start("w"), ec::lease_held);
  tell("v", succeeded());
  tell("w", succeeded());
  check_recorded(v, exit_mode::finished);
  check_recorded(w, exit_mode::finished);
}

// contract 27, 34
BOOST_AUTO_TEST_CASE(waits_for_a_lease_if_told) {
  auto b = node("node-b");
  auto held = acquire(b, "w");
  auto out = start_waiting("w");
  advance(1min);
  BOOST_TEST(!out->ended);
  ask<confirmation>(b, release_request{held.tok, exit_mode::finished});
  advance(2s);
  BOOST_TEST(starts == 1);
  tell("w", succeeded());
  check_recorded(out, exit_mode::finished);
}

// contract 32
BOOST_AUTO_TEST_CASE(a_waiting_run_can_be_stopped_by_its_ticket) {
  acquire(node("node-b"), "v");
  auto one = start_waiting("v", 1);
  auto two = start_waiting("v", 2);
  post_anon(runner, stop_runs{1});
  run();
  check_failed(one, ec::cancelled);
  BOOST_TEST(!matches(one->failed, ec::lease_held));
  BOOST_TEST(!two->ended);
}

BOOST_AUTO_TEST_CASE(a_drained_run_goes_on_to_its_own_end) {
  auto out = start("w");
  auto control = jobs.at("w").control;
  post_anon(runner, stop_runs{0, stop_mode::drain});
  advance(10min);
  BOOST_TEST(!out->ended);
  BOOST_TEST(!control->stop_requested());
  tell("w", succeeded());
  check_recorded(out, exit_mode::finished);
}

BOOST_AUTO_TEST_CASE(a_grant_that_comes_after_the_stop_is_given_back) {
  script->during = [this] { post_anon(runner, stop_runs{}); };
  auto out = start("w");
  check_failed(out, ec::cancelled);
  BOOST_TEST(starts == 0);
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
}

BOOST_AUTO_TEST_CASE(a_runner_that_ends_ends_its_runs_first) {
  auto out = start("w");
  on_stop = nullptr;
  auto worker = watch(workers.at("w"));
  self->send_exit(runner, caf::exit_reason::user_shutdown);
  run();
  BOOST_TEST(worker->reason.has_value());
  BOOST_TEST(out->ended);
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
}

BOOST_AUTO_TEST_SUITE_END()
