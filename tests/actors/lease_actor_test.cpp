// SPDX-License-Identifier: Apache-2.0
#include "leasehold/lease_actor.hpp"

#include "support/lease_world.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;
using namespace std::chrono_literals;

namespace {

struct fixture : test::lease_world {
  lease_actor a = node("node-a");
  lease_actor b = node("node-b");

  caf::error built_with(std::function<void(lease_options&)> change) {
    auto options = options_for("node-x");
    change(options);
    auto got = leasehold::spawn_lease(sys, store, options);
    return got ? caf::error{} : got.error();
  }

  void release(const lease_actor& lease, const token& tok,
               exit_mode mode = exit_mode::finished) {
    ask<confirmation>(lease, release_request{tok, mode});
  }

  void checkpoint(const lease_actor& lease, const token& tok,
                  std::string state) {
    ask<confirmation>(lease, checkpoint_request{tok, std::move(state)});
  }

  /// Starts an acquire that waits, and keeps whatever it gets.
  struct waiter {
    std::optional<grant> won;
    caf::error lost;
    caf::actor_clock::time_point when;
  };

  std::shared_ptr<waiter> wait(const lease_actor& lease,
                               acquire_request request) {
    auto result = std::make_shared<waiter>();
    request.wait = true;
    spawn_fn([this, result, lease, request](caf::event_based_actor* me) {
      post(me, request)
        .request(lease, 24h)
        .then(
          [this, result](grant& won) {
            result->won = std::move(won);
            result->when = base::now();
          },
          [this, result](caf::error& err) {
            result->lost = std::move(err);
            result->when = base::now();
          });
      return caf::behavior{[](int) {}};
    });
    run();
    return result;
  }

  /// An operator deletes a row.
  bool data_forgets(const token& tok) {
    auto op = backend::operation::forget(tok);
    return data.execute({&op, 1}).front().ok();
  }

  acquire_request for_work(std::string work_id) {
    acquire_request request;
    request.work_id = std::move(work_id);
    return request;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(lease_actor_suite, fixture)

// contract 1-6, 8
BOOST_AUTO_TEST_CASE(refuses_options_that_cannot_work) {
  auto err = leasehold::spawn_lease(sys, backend_actor{}, options_for("x"));
  BOOST_TEST(matches(err.error(), ec::nil_backend));
  BOOST_TEST(matches(err.error(), ec::config_invalid));
  for (auto ttl : {duration{0}, duration{-1s}, duration{999us}}) {
    auto bad = built_with([&](lease_options& x) { x.ttl = ttl; });
    BOOST_TEST(matches(bad, ec::ttl_invalid));
    BOOST_TEST(matches(bad, ec::config_invalid));
  }
  auto bad = built_with([](lease_options& x) { x.holder_id = ""; });
  BOOST_TEST(matches(bad, ec::holder_invalid));
  BOOST_TEST(matches(bad, ec::config_invalid));
  BOOST_TEST(script->calls == 0);
}

// contract 7
BOOST_AUTO_TEST_CASE(works_without_an_observer) {
  auto options = options_for("node-c");
  options.observer = nullptr;
  auto c = spawn_lease(options);
  auto got = acquire(c, "w");
  checkpoint(c, got.tok, "x");
  release(c, got.tok);
}

// contract 10
BOOST_AUTO_TEST_CASE(a_bad_work_id_never_reaches_the_store) {
  for (auto id : {std::string{}, std::string{"a\0b", 3}, std::string{"\xff"},
                  std::string(513, 'x')}) {
    auto err = acquire_error(a, id);
    BOOST_TEST((code_of(err) == ec::invalid_argument));
  }
  BOOST_TEST(script->calls == 0);
  BOOST_TEST(seen->events.empty());
}

// contract 11, 37
BOOST_AUTO_TEST_CASE(grants_a_free_lease_with_all_there_is_to_know) {
  auto got = acquire(a, "w");
  BOOST_TEST(got.tok.work_id() == "w");
  BOOST_TEST(got.tok.holder_id() == "node-a");
  BOOST_TEST(got.tok.number() > 0);
  BOOST_TEST(got.tok.expires_us() == store_now() + duration{30s}.count());
  BOOST_TEST((got.found == prior{}));
  BOOST_TEST(got.window->held());
  BOOST_TEST((ask<token>(got.hold, get_token{}) == got.tok));
}

// contract 26
BOOST_AUTO_TEST_CASE(the_expiry_in_a_token_never_moves) {
  auto got = acquire(a, "w");
  auto granted_until = got.tok.expires_us();
  advance(20s);
  checkpoint(a, got.tok, "x");
  ask<confirmation>(a, renew_request{got.tok});
  BOOST_TEST(row_of("w")->expires_us > granted_until);
  BOOST_TEST(ask<token>(got.hold, get_token{}).expires_us() == granted_until);
}

// contract 12, 13, 9
BOOST_AUTO_TEST_CASE(a_held_lease_is_refused_after_one_attempt) {
  acquire(a, "w");
  for (auto& lease : {a, b, node("node-a")}) {
    script->seen.clear();
    auto err = acquire_error(lease, "w");
    BOOST_TEST((code_of(err) == ec::lease_held));
    BOOST_TEST(script->seen.size() == 1u);
    BOOST_TEST(detail_of(err)
               == "\"w\" is held by \"node-a\" (token 1) for another 30s");
  }
}

// contract 15, 38, 43
BOOST_AUTO_TEST_CASE(a_successor_gets_the_state_of_a_crashed_holder) {
  auto first = acquire(a, "w", false);
  checkpoint(a, first.tok, "half way");
  advance(31s);
  auto second = acquire(b, "w");
  BOOST_TEST(second.tok.number() > first.tok.number());
  BOOST_TEST(second.found.state.value() == "half way");
  BOOST_TEST((second.found.exit == exit_mode::expired));
  BOOST_TEST(second.found.holder_id == "node-a");
  checkpoint(b, second.tok, "further");
  auto read = ask<prior>(b, read_request{second.tok});
  BOOST_TEST(read.state.value() == "further");
  BOOST_TEST((read.exit == exit_mode::expired));
}

// contract 16, 70, 17
BOOST_AUTO_TEST_CASE(a_released_lease_is_free_at_once_in_every_mode) {
  for (auto mode :
       {exit_mode::finished, exit_mode::abandoned, exit_mode::retired}) {
    auto got = acquire(a, "w");
    release(a, got.tok, mode);
    auto next = acquire(b, "w");
    BOOST_TEST((next.found.exit == mode));
    BOOST_TEST(next.found.holder_id == "node-a");
    release(b, next.tok);
  }
}

// contract 21, 23
BOOST_AUTO_TEST_CASE(a_failing_store_is_no_contention) {
  script->refuse = ec::unavailable;
  auto err = acquire_error(a, "w");
  BOOST_TEST(matches(err, ec::unavailable));
  BOOST_TEST(!matches(err, ec::lease_held));
  BOOST_TEST(seen->count("acquire-") == 1u);
}

// contract 27, 28, 33
BOOST_AUTO_TEST_CASE(a_waiter_polls_every_two_seconds_without_jitter) {
  auto held = acquire(a, "w");
  script->seen.clear();
  auto waiting = wait(b, for_work("w"));
  BOOST_TEST(script->count(backend::op_kind::acquire) == 1u);
  advance(2s - 1ms);
  BOOST_TEST(script->count(backend::op_kind::acquire) == 1u);
  advance(1ms);
  BOOST_TEST(script->count(backend::op_kind::acquire) == 2u);
  advance(6s);
  BOOST_TEST(script->count(backend::op_kind::acquire) == 5u);
  BOOST_TEST(!waiting->won.has_value());
}

// contract 29, 30
BOOST_AUTO_TEST_CASE(a_poll_interval_of_nothing_means_the_default) {
  acquire(a, "w");
  script->seen.clear();
  auto request = for_work("w");
  request.poll = -5s;
  wait(b, request);
  advance(2s);
  BOOST_TEST(script->count(backend::op_kind::acquire) == 2u);
  auto plain = for_work("w");
  plain.poll = 10ms;
  script->seen.clear();
  BOOST_TEST(
    (code_of(ask_error<grant>(node("node-c"), plain)) == ec::lease_held));
  BOOST_TEST(script->count(backend::op_kind::acquire) == 1u);
}

// contract 34
BOOST_AUTO_TEST_CASE(a_waiter_elsewhere_wins_within_one_poll_of_a_release) {
  auto held = acquire(a, "w");
  auto waiting = wait(b, for_work("w"));
  advance(3s);
  release(a, held.tok);
  advance(1s);
  BOOST_TEST_REQUIRE(waiting->won.has_value());
  BOOST_TEST((waiting->won->found.exit == exit_mode::finished));
}

// contract 35
BOOST_AUTO_TEST_CASE(of_waiters_elsewhere_one_wins_and_the_others_wait_on) {
  auto held = acquire(a, "w");
  std::vector<std::shared_ptr<waiter>> waiting;
  for (auto holder : {"node-c", "node-d", "node-e"}) {
    waiting.push_back(wait(node(holder), for_work("w")));
    advance(300ms);
  }
  for (std::size_t won = 1; won <= 3; ++won) {
    release(a, held.tok);
    advance(2s);
    std::size_t winners = 0;
    for (auto& x : waiting) {
      BOOST_TEST(!x->lost);
      winners += x->won ? 1u : 0u;
      if (x->won && x->won->tok.number() > held.tok.number())
        held = *x->won;
    }
    BOOST_TEST(winners == won);
  }
}

BOOST_AUTO_TEST_CASE(a_waiter_wakes_at_the_expiry_that_the_store_told) {
  acquire(a, "w", false);
  auto request = for_work("w");
  request.poll = 10min;
  auto t0 = base::now();
  auto waiting = wait(b, request);
  advance(31s);
  BOOST_TEST_REQUIRE(waiting->won.has_value());
  BOOST_TEST((waiting->when - t0 <= 30s + 2ms));
}

BOOST_AUTO_TEST_CASE(waiters_of_one_process_are_served_in_order_at_once) {
  auto held = acquire(a, "w");
  auto first = wait(a, for_work("w"));
  auto second = wait(a, for_work("w"));
  auto third = wait(a, for_work("w"));
  release(a, held.tok);
  BOOST_TEST_REQUIRE(first->won.has_value());
  BOOST_TEST(!second->won.has_value());
  release(a, first->won->tok);
  BOOST_TEST_REQUIRE(second->won.has_value());
  BOOST_TEST(!third->won.has_value());
  release(a, second->won->tok);
  BOOST_TEST(third->won.has_value());
}

// contract 31
BOOST_AUTO_TEST_CASE(only_contention_is_waited_through) {
  acquire(a, "w");
  auto waiting = wait(b, for_work("w"));
  script->refuse = ec::unavailable;
  advance(2s);
  BOOST_TEST(matches(waiting->lost, ec::unavailable));
}

// contract 32, 22
BOOST_AUTO_TEST_CASE(a_wait_ends_by_deadline_or_cancellation) {
  acquire(a, "w");
  auto request = for_work("w");
  request.timeout = 5s;
  auto t0 = base::now();
  auto timed = wait(b, request);
  request.timeout = duration{0};
  request.ticket = 42;
  auto cancelled = wait(b, request);
  advance(10s);
  BOOST_TEST(matches(timed->lost, ec::deadline_exceeded));
  BOOST_TEST(!matches(timed->lost, ec::lease_held));
  BOOST_TEST((timed->when - t0 == 5s));
  post_anon(b, cancel_acquire{42});
  run();
  BOOST_TEST(matches(cancelled->lost, ec::cancelled));
  BOOST_TEST(!matches(cancelled->lost, ec::lease_held));
  script->seen.clear();
  advance(1min);
  BOOST_TEST(script->count(backend::op_kind::acquire) == 0u);
}

// A19 of the contract's decisions
BOOST_AUTO_TEST_CASE(a_grant_that_nobody_waits_for_is_released_at_once) {
  auto request = for_work("w");
  request.ticket = 42;
  auto waiting = std::make_shared<waiter>();
  spawn_fn([&, waiting](caf::event_based_actor* me) {
    post(me, request)
      .request(a, 1min)
      .then([waiting](grant& won) { waiting->won = std::move(won); },
            [waiting](caf::error& err) { waiting->lost = std::move(err); });
    return caf::behavior{[](int) {}};
  });
  script->during = [this] { post_anon(a, cancel_acquire{42}); };
  run();
  BOOST_TEST(!waiting->won.has_value());
  BOOST_TEST(matches(waiting->lost, ec::cancelled));
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
}

BOOST_AUTO_TEST_CASE(a_grant_that_is_given_back_leaves_what_it_found) {
  for (auto mode : {exit_mode::finished, exit_mode::retired}) {
    auto before = acquire(a, "w");
    checkpoint(a, before.tok, "all");
    release(a, before.tok, mode);
    auto request = for_work("w");
    request.ticket = 42;
    spawn_fn([this, request](caf::event_based_actor* me) {
      post(me, request)
        .request(a, 1min)
        .then([](const grant&) {}, [](const caf::error&) {});
      return caf::behavior{[](int) {}};
    });
    script->during = [this] { post_anon(a, cancel_acquire{42}); };
    run();
    BOOST_TEST(row_of("w")->number > before.tok.number());
    BOOST_TEST((row_of("w")->exit == mode));
    BOOST_TEST(row_of("w")->state.value() == "all");
  }
}

BOOST_AUTO_TEST_CASE(a_lost_reply_to_an_acquire_is_found_by_the_next_one) {
  script->lose_replies = true;
  BOOST_TEST(matches(acquire_error(a, "w"), ec::unknown_outcome));
  BOOST_TEST(row_of("w").has_value());
  script->lose_replies = false;
  advance(1s);
  auto got = acquire(a, "w");
  BOOST_TEST(got.tok.number() == row_of("w")->number);
  BOOST_TEST((got.found.exit == exit_mode::none));
  // Counted from the first grant, which is a second old.
  BOOST_TEST((got.window->left() == 29s));
}

// As an outage goes: the reply is lost, then nothing answers, then all is well.
BOOST_AUTO_TEST_CASE(a_grant_that_was_never_heard_of_is_not_forgotten) {
  script->lose_replies = true;
  BOOST_TEST(matches(acquire_error(a, "w"), ec::unknown_outcome));
  script->lose_replies = false;
  for (auto code : {ec::unavailable, ec::deadline_exceeded, ec::unavailable}) {
    script->refuse = code;
    BOOST_TEST(matches(acquire_error(a, "w"), code));
  }
  script->refuse = ec::none;
  auto got = acquire(a, "w");
  BOOST_TEST(got.tok.number() == row_of("w")->number);
  BOOST_TEST(got.tok.number() == 1);
}

BOOST_AUTO_TEST_CASE(a_grant_that_could_not_be_given_back_is_found_again) {
  script->during = [this] {
    cancel_acquire request;
    request.ticket = 7;
    post_anon(a, request);
    script->refuse = ec::unavailable;
    script->only = backend::op_kind::release;
  };
  acquire_request request;
  request.work_id = "w";
  request.ticket = 7;
  BOOST_TEST(matches(ask_error<grant>(a, request), ec::cancelled));
  BOOST_TEST((row_of("w")->exit == exit_mode::none));
  script->refuse = ec::none;
  BOOST_TEST(acquire(a, "w").tok.number() == 1);
}

BOOST_AUTO_TEST_CASE(waiters_that_give_up_early_do_not_starve_the_rest) {
  acquire(node("node-b"), "w", false);
  auto give_up = [this] {
    acquire_request request;
    request.work_id = "w";
    request.wait = true;
    request.timeout = 1s;
    post(self, request).send(a);
    run();
  };
  for (int i = 0; i < 120; ++i) {
    give_up();
    advance(500ms);
  }
  // The lease was free from 30 s on.
  BOOST_TEST(row_of("w")->holder_id == "node-a");
}

BOOST_AUTO_TEST_CASE(the_next_in_line_knows_when_the_lease_expires) {
  acquire(node("node-b"), "w", false);
  acquire_request first;
  first.work_id = "w";
  first.wait = true;
  first.poll = 1h;
  first.ticket = 1;
  auto second = first;
  second.ticket = 2;
  post(self, first).send(a);
  post(self, second).send(a);
  advance(29s);
  post_anon(a, cancel_acquire{1});
  advance(1s + 2ms);
  BOOST_TEST(row_of("w")->holder_id == "node-a");
}

BOOST_AUTO_TEST_CASE(a_stop_does_not_hide_a_loss) {
  // The window is over, but the timer that watches it is late.
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  slept = 31s;
  post_anon(a, stop_request{got.tok});
  run();
  BOOST_TEST_REQUIRE(down->reason.has_value());
  BOOST_TEST(matches(*down->reason, ec::lease_window_exhausted));
  BOOST_TEST(seen->count("lost lease_window_exhausted") == 1u);
}

BOOST_AUTO_TEST_CASE(a_lost_reply_to_a_release_is_repeated_safely) {
  auto got = acquire(a, "w");
  script->lose_replies = true;
  auto err
    = ask_error<confirmation>(a, release_request{got.tok, exit_mode::finished});
  BOOST_TEST(matches(err, ec::unknown_outcome));
  script->lose_replies = false;
  release(a, got.tok, exit_mode::finished);
  BOOST_TEST((acquire(b, "w").found.exit == exit_mode::finished));
}

// contract 68
BOOST_AUTO_TEST_CASE(a_second_release_is_expired_and_the_first_mode_stands) {
  auto got = acquire(a, "w");
  release(a, got.tok, exit_mode::finished);
  auto err
    = ask_error<confirmation>(a, release_request{got.tok, exit_mode::retired});
  BOOST_TEST(matches(err, ec::lease_expired));
  BOOST_TEST((row_of("w")->exit == exit_mode::finished));
}

// contract 62, 69, 211
BOOST_AUTO_TEST_CASE(a_wrong_exit_mode_touches_nothing) {
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  seen->events.clear();
  script->seen.clear();
  for (auto mode :
       {exit_mode::none, exit_mode::expired, static_cast<exit_mode>(9)}) {
    auto err = ask_error<confirmation>(a, release_request{got.tok, mode});
    BOOST_TEST(matches(err, ec::invalid_exit_mode));
  }
  release_request unspoken;
  unspoken.tok = got.tok;
  BOOST_TEST(
    matches(ask_error<confirmation>(a, unspoken), ec::invalid_exit_mode));
  BOOST_TEST(script->seen.empty());
  BOOST_TEST(seen->events.empty());
  BOOST_TEST(!down->reason.has_value());
}

// contract 90, 209
BOOST_AUTO_TEST_CASE(a_fenced_call_names_who_and_what) {
  auto got = acquire(a, "w", false);
  steal("w");
  seen->events.clear();
  auto err = ask_error<confirmation>(a, renew_request{got.tok});
  BOOST_TEST(matches(err, ec::fenced));
  BOOST_TEST(detail_of(err)
             == "\"w\" is no longer held by \"node-a\" with token 1");
  BOOST_TEST(seen->events.at(0) == "renew");
  BOOST_TEST(seen->events.at(1) == "fenced Renew");
  // The token is known to be dead: the store is not asked again.
  script->seen.clear();
  err = ask_error<confirmation>(a, checkpoint_request{got.tok, "late"});
  BOOST_TEST(matches(err, ec::fenced));
  BOOST_TEST(script->seen.empty());
}

// contract 91
BOOST_AUTO_TEST_CASE(a_fenced_caller_cannot_tell_a_successor_from_a_lost_row) {
  std::vector<caf::error> answers;
  for (auto with_successor : {true, false}) {
    auto lease = node("node-c");
    auto got = acquire(lease, "w", false);
    if (with_successor)
      steal("w");
    auto row = row_of("w").value();
    auto tok = internal::token_access::make("w", row.holder_id, row.number, 0);
    if (!with_successor)
      BOOST_TEST_REQUIRE(data_forgets(tok));
    answers.push_back(ask_error<confirmation>(lease, renew_request{got.tok}));
    if (with_successor)
      BOOST_TEST_REQUIRE(data_forgets(tok));
  }
  auto text = [](const caf::error& err) {
    auto result = render(err);
    return result.substr(0, result.find("token"));
  };
  for (auto& err : answers) {
    BOOST_TEST(matches(err, ec::fenced));
    BOOST_TEST((also_of(err) == ec::none));
  }
  BOOST_TEST(text(answers[0]) == text(answers[1]));
}

// contract 216
BOOST_AUTO_TEST_CASE(an_observer_hears_of_a_call_before_its_caller_does) {
  auto got = acquire(a, "w");
  seen->events.clear();
  auto at_answer = std::make_shared<std::vector<std::string>>();
  spawn_fn([this, got, at_answer](caf::event_based_actor* me) {
    post(me, checkpoint_request{got.tok, "x"})
      .request(a, 1min)
      .then(
        [this, at_answer](const confirmation&) { *at_answer = seen->events; });
    return caf::behavior{[](int) {}};
  });
  run();
  std::vector<std::string> want{"checkpoint"};
  BOOST_TEST(*at_answer == want, boost::test_tools::per_element());
}

// contract 204, 207, 208, 210
BOOST_AUTO_TEST_CASE(every_operation_is_reported_once) {
  auto got = acquire(a, "w");
  (void)acquire_error(b, "w");
  checkpoint(a, got.tok, "12345");
  BOOST_TEST(seen->last_size == 5u);
  ask<prior>(a, read_request{got.tok});
  ask<confirmation>(a, renew_request{got.tok});
  BOOST_TEST(seen->attempts.back() == 1);
  release(a, got.tok);
  ask<confirmation>(a, forget_request{got.tok});
  std::vector<std::string> want{"acquire", "acquire-", "checkpoint",
                                "read",    "renew",    "release finished",
                                "forget"};
  BOOST_TEST(seen->events == want, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_checkpoint_over_the_limit_never_reaches_the_store) {
  auto options = options_for("node-c");
  options.max_state_bytes = 4;
  auto c = spawn_lease(options);
  auto got = acquire(c, "w");
  script->seen.clear();
  auto err = ask_error<confirmation>(c, checkpoint_request{got.tok, "12345"});
  BOOST_TEST(matches(err, ec::state_too_large));
  BOOST_TEST(script->seen.empty());
  checkpoint(c, got.tok, "1234");
  BOOST_TEST(got.window->held());
}

// contract 97 and A2 of its decisions
BOOST_AUTO_TEST_CASE(a_checkpoint_moves_the_window_as_a_renewal_does) {
  auto got = acquire(a, "w", false);
  advance(10s);
  checkpoint(a, got.tok, "x");
  BOOST_TEST((got.window->left() == 30s));
}

// contract 135
BOOST_AUTO_TEST_CASE(an_empty_state_clears_and_none_clears_too) {
  auto got = acquire(a, "w");
  checkpoint(a, got.tok, "x");
  checkpoint(a, got.tok, "");
  BOOST_TEST(!ask<prior>(a, read_request{got.tok}).state.has_value());
  checkpoint(a, got.tok, "y");
  ask<confirmation>(a, checkpoint_request{got.tok, std::nullopt});
  BOOST_TEST(!ask<prior>(a, read_request{got.tok}).state.has_value());
}

// contract 71-75
BOOST_AUTO_TEST_CASE(a_forgotten_lease_is_gone_and_free) {
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  checkpoint(a, got.tok, "x");
  ask<confirmation>(a, forget_request{got.tok});
  BOOST_TEST_REQUIRE(down->reason.has_value());
  BOOST_TEST((*down->reason == caf::error{}));
  auto err = ask_error<prior>(a, read_request{got.tok});
  BOOST_TEST(matches(err, ec::fenced));
  auto next = acquire(b, "w");
  BOOST_TEST((next.found == prior{}));
  BOOST_TEST(next.tok.number() > got.tok.number());
}

BOOST_AUTO_TEST_CASE(calls_of_one_moment_share_one_request) {
  std::vector<std::shared_ptr<waiter>> all;
  for (int i = 0; i < 100; ++i) {
    auto w = std::make_shared<waiter>();
    all.push_back(w);
    spawn_fn([&, w, i](caf::event_based_actor* me) {
      post(me, for_work("w" + std::to_string(i)))
        .request(a, 1min)
        .then([w](grant& won) { w->won = std::move(won); },
              [w](caf::error& err) { w->lost = std::move(err); });
      return caf::behavior{[](int) {}};
    });
  }
  run();
  for (auto& w : all)
    BOOST_TEST(w->won.has_value());
  BOOST_TEST(script->calls == 1);
}

BOOST_AUTO_TEST_CASE(a_silent_store_is_an_unknown_outcome_in_bounded_time) {
  *line_is_up = false;
  auto w = std::make_shared<waiter>();
  spawn_fn([&, w](caf::event_based_actor* me) {
    post(me, for_work("w"))
      .request(a, 1min)
      .then([w](grant& won) { w->won = std::move(won); },
            [this, w](caf::error& err) {
              w->lost = std::move(err);
              w->when = base::now();
            });
    return caf::behavior{[](int) {}};
  });
  run();
  auto t0 = base::now();
  advance(20s);
  BOOST_TEST(matches(w->lost, ec::unknown_outcome));
  BOOST_TEST((w->when - t0 == 6s));
}

BOOST_AUTO_TEST_CASE(a_call_that_outlasts_an_unmanaged_window_is_answered) {
  auto got = acquire(a, "w", false);
  auto answer = std::make_shared<caf::error>();
  advance(29s);
  *line_is_up = false;
  spawn_fn([this, got, answer](caf::event_based_actor* me) {
    post(me, checkpoint_request{got.tok, "late"})
      .request(a, 1h)
      .then([](const confirmation&) {},
            [answer](caf::error& err) { *answer = std::move(err); });
    return caf::behavior{[](int) {}};
  });
  advance(10s);
  BOOST_TEST(matches(*answer, ec::unknown_outcome));
}

BOOST_AUTO_TEST_CASE(the_hold_of_an_unmanaged_lease_ends_with_its_window) {
  auto got = acquire(a, "w", false);
  auto down = watch(got.hold);
  advance(10s);
  checkpoint(a, got.tok, "x");
  advance(30s - 1ms);
  BOOST_TEST(!down->reason.has_value());
  advance(1ms);
  BOOST_TEST_REQUIRE(down->reason.has_value());
  BOOST_TEST(matches(*down->reason, ec::lease_window_exhausted));
  BOOST_TEST(script->count(backend::op_kind::renew) == 0u);
}

BOOST_AUTO_TEST_CASE(a_loss_that_several_calls_meet_is_reported_once) {
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  steal("w");
  for (int i = 0; i < 3; ++i)
    post_anon(a, renew_request{got.tok});
  run();
  BOOST_TEST(seen->count("fenced Renew") == 3u);
  BOOST_TEST(seen->count("lost fenced") == 1u);
  BOOST_TEST_REQUIRE(down->reason.has_value());
  BOOST_TEST(matches(*down->reason, ec::fenced));
}

BOOST_AUTO_TEST_CASE(for_ever_is_a_value_of_every_option) {
  auto options = options_for("node-c");
  options.renew = options.store_timeout = duration::max();
  options.retry.max = duration::max();
  auto c = spawn_lease(options);
  auto got = acquire(c, "w");
  auto request = for_work("w");
  request.timeout = request.poll = duration::max();
  auto first = wait(a, request);
  auto second = wait(a, request);
  advance(29s);
  BOOST_TEST(got.window->held());
  BOOST_TEST(script->count(backend::op_kind::renew) == 0u);
  advance(2s);
  BOOST_TEST(!first->lost);
  BOOST_TEST_REQUIRE(first->won.has_value());
  BOOST_TEST(!second->lost);
}

BOOST_AUTO_TEST_CASE(every_call_is_answered_when_the_lease_actor_ends) {
  auto got = acquire(a, "w");
  *line_is_up = false;
  auto answers = std::make_shared<std::vector<ec>>();
  auto call = [this, answers, got](caf::event_based_actor* me) {
    auto note
      = [answers](const caf::error& err) { answers->push_back(code_of(err)); };
    post(me, checkpoint_request{got.tok, "x"})
      .request(a, 1h)
      .then([](const confirmation&) {}, note);
    post(me, read_request{got.tok})
      .request(a, 1h)
      .then([](const prior&) {}, note);
    post(me, release_request{got.tok, exit_mode::finished})
      .request(a, 1h)
      .then([](const confirmation&) {}, note);
    return caf::behavior{[](int) {}};
  };
  spawn_fn(call);
  run();
  BOOST_TEST(answers->empty());
  self->send_exit(a, caf::exit_reason::user_shutdown);
  run();
  BOOST_TEST(answers->size() == 3u);
  for (auto code : *answers)
    BOOST_TEST((code == ec::unknown_outcome));
}

BOOST_AUTO_TEST_CASE(holds_end_with_the_reason_of_their_lease) {
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  self->send_exit(a, caf::exit_reason::user_shutdown);
  run();
  BOOST_TEST_REQUIRE(down->reason.has_value());
  BOOST_TEST((*down->reason == caf::exit_reason::user_shutdown));
}

BOOST_AUTO_TEST_SUITE_END()
