// SPDX-License-Identifier: Apache-2.0
#include "leasehold/leader.hpp"

#include "support/pool_world.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;
using namespace std::chrono_literals;

using leasehold::test::puppet;

namespace {

class recording_leader_observer : public leader_observer {
public:
  std::vector<std::string> events;

  void on_elected(const token& tok, const prior&) override {
    events.push_back("elected " + tok.work_id());
  }

  void on_lost(const token&, ec cause, std::string_view) override {
    events.push_back("lost " + to_string(cause));
  }

  void on_relinquished(const token&, exit_mode mode) override {
    events.push_back("relinquished " + to_string(mode));
  }
};

struct fixture : test::pool_world {
  std::shared_ptr<recording_leader_observer> heard
    = std::make_shared<recording_leader_observer>();

  leader_options options_for_leader() {
    leader_options options;
    options.lease = a;
    options.work = puppets();
    options.observer = heard;
    options.random = seeded_random(1);
    return options;
  }

  leader_actor make(leader_options options) {
    auto got = spawn_leader(sys, std::move(options));
    BOOST_TEST_REQUIRE(static_cast<bool>(got));
    return track(*got);
  }

  leader_actor make() {
    return make(options_for_leader());
  }

  leader_actor make_with_backoff(duration backoff) {
    auto options = options_for_leader();
    options.backoff = backoff;
    return make(options);
  }

  auto start(const leader_actor& leader, bool wait = false,
             std::uint64_t ticket = 0) {
    elect request;
    request.name = "crown";
    request.wait = wait;
    request.ticket = ticket;
    return call<run_result>(leader, std::move(request));
  }

  template <class Answer>
  void check_failed(const Answer& out, ec code) {
    BOOST_TEST_REQUIRE(out->ended);
    BOOST_TEST(matches(out->failed, code));
  }

  void check_events(std::vector<std::string> want) {
    BOOST_TEST(heard->events == want, boost::test_tools::per_element());
  }

  /// Answers nothing before `pause` has passed, then something.
  template <class Answer>
  void check_pause(const Answer& out, duration pause) {
    advance(pause - 1ms);
    BOOST_TEST(!out->ended);
    advance(1ms);
    BOOST_TEST(out->ended);
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(leader_suite, fixture)

// contract 150
BOOST_AUTO_TEST_CASE(refuses_options_that_cannot_work) {
  leader_options options;
  BOOST_TEST(matches(check(options), ec::leader_lease_required));
  BOOST_TEST(matches(check(options), ec::config_invalid));
  options.lease = a;
  BOOST_TEST(matches(check(options), ec::leader_fn_required));
  BOOST_TEST(matches(check(options), ec::config_invalid));
  BOOST_TEST(!spawn_leader(sys, options));
  BOOST_TEST(script->calls == 0);
}

// contract 151, 152, 163, 171
BOOST_AUTO_TEST_CASE(a_second_candidate_is_told_so_after_the_idle_interval) {
  acquire(node("node-b"), "crown");
  auto out = start(make());
  advance(1s - 1ms);
  BOOST_TEST(!out->ended);
  advance(201ms);
  check_failed(out, ec::lease_held);
  BOOST_TEST(starts == 0);
  check_events({});
}

// contract 153, 154
BOOST_AUTO_TEST_CASE(a_store_that_is_down_is_told_after_the_backoff) {
  script->refuse = ec::unavailable;
  check_failed(start(make()), ec::unavailable);
  auto out = start(make_with_backoff(3s));
  check_pause(out, 3s);
  check_failed(out, ec::unavailable);
  check_events({});
}

// contract 153: the caller's own limit is told at once
BOOST_AUTO_TEST_CASE(a_limit_of_the_caller_is_told_at_once) {
  acquire(node("node-b"), "crown");
  elect request;
  request.name = "crown";
  request.wait = true;
  request.timeout = 5s;
  auto out = call<run_result>(make_with_backoff(1h), request);
  check_pause(out, 5s);
  check_failed(out, ec::deadline_exceeded);
}

// contract 155, 162, 165
BOOST_AUTO_TEST_CASE(a_leader_that_finishes_relinquishes_and_pauses) {
  auto out = start(make_with_backoff(2s));
  check_events({"elected crown"});
  BOOST_TEST(starts == 1);
  tell("crown", succeeded());
  check_events({"elected crown", "relinquished finished"});
  check_pause(out, 2s);
  BOOST_TEST((out->result.value().exit == exit_mode::finished));
}

// contract 165, 160
BOOST_AUTO_TEST_CASE(a_leader_may_retire) {
  auto out = start(make());
  tell("crown", retired());
  BOOST_TEST((out->result.value().exit == exit_mode::retired));
  check_events({"elected crown", "relinquished retired"});
  // Without state there is neither a write nor a read of one.
  BOOST_TEST(script->count(backend::op_kind::checkpoint) == 0u);
  BOOST_TEST(script->count(backend::op_kind::read) == 0u);
}

// contract 155, 166
BOOST_AUTO_TEST_CASE(work_that_fails_is_neither_lost_nor_relinquished) {
  auto out = start(make_with_backoff(2s));
  tell("crown", failed("no"));
  check_pause(out, 2s);
  check_failed(out, ec::work_failed);
  BOOST_TEST((row_of("crown")->exit == exit_mode::abandoned));
  check_events({"elected crown"});
}

// contract 156, 164
BOOST_AUTO_TEST_CASE(a_fenced_leader_is_told_at_once) {
  auto out = start(make_with_backoff(1h));
  steal("crown");
  advance(15s);
  check_failed(out, ec::fenced);
  check_events({"elected crown", "lost fenced"});
}

// contract 168 and A8 of its decisions
BOOST_AUTO_TEST_CASE(a_fenced_release_is_a_loss) {
  auto out = start(make());
  steal("crown");
  tell("crown", succeeded());
  check_failed(out, ec::fenced);
  check_events({"elected crown", "lost fenced"});
}

// contract 168
BOOST_AUTO_TEST_CASE(a_failed_release_is_told_only_if_the_work_succeeded) {
  script->refuse = ec::store_failed;
  script->only = backend::op_kind::release;
  auto leader = make();
  auto good = start(leader);
  tell("crown", succeeded());
  check_failed(good, ec::store_failed);
  script->refuse = ec::none;
  advance(31s);
  auto bad = start(leader);
  script->refuse = ec::store_failed;
  tell("crown", failed("no"));
  check_failed(bad, ec::work_failed);
  check_events({"elected crown", "elected crown"});
}

// contract 155, 164
BOOST_AUTO_TEST_CASE(a_leader_whose_window_ran_out_has_lost) {
  auto out = start(make_with_backoff(2s));
  *line_is_up = false;
  advance(30s);
  check_events({"elected crown", "lost lease_window_exhausted"});
  BOOST_TEST(!out->ended);
  advance(2s);
  check_failed(out, ec::lease_window_exhausted);
}

// contract 157
BOOST_AUTO_TEST_CASE(a_loop_of_elections_does_not_burn_a_store_that_is_down) {
  script->refuse = ec::unavailable;
  auto leader = make_with_backoff(1s);
  spawn_fn([leader](caf::event_based_actor* me) {
    auto again = std::make_shared<std::function<void()>>();
    *again = [me, leader, weak = std::weak_ptr{again}] {
      elect request;
      request.name = "crown";
      post(me, request)
        .request(leader, caf::infinite)
        .then([](const run_result&) {},
              [weak](const caf::error&) {
                if (auto next = weak.lock())
                  (*next)();
              });
    };
    (*again)();
    return caf::behavior{[again](int) {}};
  });
  advance(60s);
  BOOST_TEST(script->count(backend::op_kind::acquire) >= 60u);
  BOOST_TEST(script->count(backend::op_kind::acquire) <= 61u);
}

// contract 158
BOOST_AUTO_TEST_CASE(a_pause_ends_with_the_resignation) {
  auto leader = make_with_backoff(1h);
  auto out = start(leader);
  tell("crown", succeeded());
  BOOST_TEST(!out->ended);
  post_anon(leader, resign{});
  run();
  BOOST_TEST(out->ended);
  BOOST_TEST((out->result.value().exit == exit_mode::finished));
}

// contract 158 and A7 of its decisions
BOOST_AUTO_TEST_CASE(a_pause_that_is_cut_short_tells_why_it_was_made) {
  acquire(node("node-b"), "crown");
  auto leader = make();
  auto out = start(leader);
  post_anon(leader, resign{});
  run();
  check_failed(out, ec::lease_held);
}

// contract 159
BOOST_AUTO_TEST_CASE(a_waiting_candidate_leads_when_its_turn_comes) {
  auto b = node("node-b");
  auto held = acquire(b, "crown");
  auto leader = make();
  auto one = start(leader, true, 1);
  auto two = start(leader, true, 2);
  advance(10min);
  BOOST_TEST(starts == 0);
  ask<confirmation>(b, release_request{held.tok, exit_mode::finished});
  advance(2s);
  BOOST_TEST(starts == 1);
  post_anon(leader, resign{2});
  run();
  check_failed(two, ec::cancelled);
  BOOST_TEST(!one->ended);
}

// contract 167: nobody has to listen
BOOST_AUTO_TEST_CASE(events_are_optional) {
  auto options = options_for_leader();
  options.observer = nullptr;
  auto out = start(make(options));
  tell("crown", succeeded());
  BOOST_TEST(out->result.has_value());
}

// contract 169
BOOST_AUTO_TEST_CASE(work_that_throws_releases_nothing) {
  auto out = start(make());
  post_anon(workers.at("crown"), std::string{"throw"});
  run();
  check_failed(out, ec::work_threw);
  BOOST_TEST(script->count(backend::op_kind::release) == 0u);
  check_events({"elected crown"});
  advance(1h);
  BOOST_TEST(script->count(backend::op_kind::renew) == 0u);
}

// contract 164, 170
BOOST_AUTO_TEST_CASE(a_leader_that_resigns_releases_and_has_not_lost) {
  auto leader = make();
  auto out = start(leader);
  on_stop = nullptr;
  post_anon(leader, resign{});
  run();
  BOOST_TEST(out->ended);
  BOOST_TEST((row_of("crown")->exit != exit_mode::none));
  BOOST_TEST(heard->events.front() == "elected crown");
  for (auto& event : heard->events)
    BOOST_TEST(event.find("lost") == std::string::npos);
}

// contract 170: the release has the cleanup time, five seconds by default
BOOST_AUTO_TEST_CASE(a_silent_store_delays_a_resignation_by_the_cleanup_time) {
  auto leader = make();
  auto out = start(leader);
  *line_is_up = false;
  post_anon(leader, resign{});
  check_pause(out, 5s);
}

BOOST_AUTO_TEST_SUITE_END()
