// SPDX-License-Identifier: Apache-2.0
#include "leasehold/renewal.hpp"
#include "leasehold/work.hpp"

#include "support/lease_world.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;
using namespace std::chrono_literals;

namespace {

struct fixture : test::lease_world {
  lease_actor a = node("node-a");

  std::size_t renewals() {
    return script->count(backend::op_kind::renew);
  }

  void check_lost(const std::shared_ptr<test::witness>& down, ec code) {
    BOOST_TEST_REQUIRE(down->reason.has_value());
    BOOST_TEST(matches(*down->reason, code));
  }

  void check_reason(const std::shared_ptr<test::witness>& down,
                    const caf::error& reason) {
    BOOST_TEST_REQUIRE(down->reason.has_value());
    BOOST_TEST((*down->reason == reason));
  }

  /// A successor takes the lapsed lease.
  void steal_expired() {
    advance(1ms);
    auto op = backend::operation::acquire("w", "thief", 1h);
    BOOST_TEST_REQUIRE(data.execute({&op, 1}).front().ok());
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(renewal_suite, fixture)

// contract 92, 94, 95
BOOST_AUTO_TEST_CASE(renews_every_half_ttl_from_one_interval_on) {
  auto got = acquire(a, "w");
  advance(15s - 1ms);
  BOOST_TEST(renewals() == 0u);
  advance(1ms);
  BOOST_TEST(renewals() == 1u);
  BOOST_TEST(row_of("w")->expires_us == store_now() + duration{30s}.count());
  advance(150s);
  BOOST_TEST(renewals() == 11u);
}

// contract 93
BOOST_AUTO_TEST_CASE(takes_another_interval_but_not_an_impossible_one) {
  auto options = options_for("node-b");
  options.renew = 5s;
  acquire(spawn_lease(options), "w");
  advance(20s);
  BOOST_TEST(renewals() == 4u);
  script->seen.clear();
  options.renew = -1s;
  acquire(spawn_lease(options), "v");
  advance(14s);
  BOOST_TEST(renewals() == 2u); // Both for "w".
}

// contract 121, 269
BOOST_AUTO_TEST_CASE(keeps_a_lease_for_a_week) {
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  advance(7 * 24h);
  BOOST_TEST(!down->reason.has_value());
  BOOST_TEST(got.window->held());
  BOOST_TEST(renewals() == 40'320u);
}

// contract 96, 97, 118
BOOST_AUTO_TEST_CASE(the_window_counts_from_before_the_request_left) {
  auto got = acquire(a, "w");
  BOOST_TEST((got.window->left() == 30s));
  advance(14s);
  BOOST_TEST((got.window->left() == 16s));
  advance(1s);
  BOOST_TEST((got.window->left() == 30s));
}

// contract 116, 117
BOOST_AUTO_TEST_CASE(the_window_reads_the_same_wherever_it_was_handed_to) {
  auto got = acquire(a, "w");
  work_control derived{got.window};
  advance(14s);
  BOOST_TEST((derived.window_left() == 16s));
  advance(1s);
  BOOST_TEST((derived.window_left() == 30s));
  BOOST_TEST(!derived.stop_requested());
  steal("w");
  advance(15s);
  BOOST_TEST((got.window->left() == 0s));
  BOOST_TEST((derived.window_left() == 0s));
  BOOST_TEST(derived.stop_requested());
}

BOOST_AUTO_TEST_CASE(a_margin_is_taken_off_every_window) {
  auto options = options_for("node-b");
  options.margin = 500ms;
  auto got = acquire(spawn_lease(options), "w");
  BOOST_TEST((got.window->left() == 29500ms));
  advance(15s);
  BOOST_TEST((got.window->left() == 29500ms));
}

// contract 104
BOOST_AUTO_TEST_CASE(a_store_clock_ahead_does_not_stretch_the_window) {
  store_skew = 1h;
  auto got = acquire(a, "w");
  BOOST_TEST((got.window->left() == 30s));
}

// contract 99, 103
BOOST_AUTO_TEST_CASE(rides_out_an_outage_shorter_than_the_window) {
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  advance(10min);
  script->refuse = ec::unavailable;
  advance(29s);
  script->refuse = ec::none;
  advance(10min);
  BOOST_TEST(!down->reason.has_value());
  BOOST_TEST(got.window->held());
}

// contract 99, 119
BOOST_AUTO_TEST_CASE(retries_at_growing_distances_and_counts_attempts) {
  acquire(a, "w");
  script->refuse = ec::unavailable;
  advance(15s);
  BOOST_TEST(renewals() == 1u);
  advance(100ms);
  BOOST_TEST(renewals() == 2u);
  advance(200ms);
  BOOST_TEST(renewals() == 3u);
  advance(400ms);
  BOOST_TEST(renewals() == 4u);
  script->refuse = ec::none;
  advance(800ms);
  advance(15s);
  std::vector<int> want{1, 2, 3, 4, 5, 1};
  BOOST_TEST(seen->attempts == want, boost::test_tools::per_element());
}

// contract 102, 132
BOOST_AUTO_TEST_CASE(gives_up_exactly_when_the_window_closes) {
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  script->refuse = ec::unavailable;
  advance(30s - 1ms);
  BOOST_TEST(!down->reason.has_value());
  BOOST_TEST(got.window->held());
  advance(1ms);
  check_lost(down, ec::lease_window_exhausted);
  BOOST_TEST(!got.window->held());
  BOOST_TEST(seen->count("lost lease_window_exhausted") == 1u);
  auto before = renewals();
  advance(1h);
  BOOST_TEST(renewals() == before);
}

// contract 107
BOOST_AUTO_TEST_CASE(a_stalled_request_cannot_hold_the_window_open) {
  auto options = options_for("node-b");
  options.store_timeout = 1h;
  auto got = acquire(spawn_lease(options), "w");
  auto down = watch(got.hold);
  *line_is_up = false;
  advance(30s - 1ms);
  BOOST_TEST(!down->reason.has_value());
  advance(1ms);
  check_lost(down, ec::lease_window_exhausted);
}

// contract 108, 212
BOOST_AUTO_TEST_CASE(a_confirmation_after_the_end_changes_nothing) {
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  advance(14s);
  slept = 20s; // The machine was suspended: 34 s have passed for the window.
  advance(1s); // The renewal that was due meanwhile.
  check_lost(down, ec::lease_window_exhausted);
  BOOST_TEST((got.window->left() == 0s));
}

BOOST_AUTO_TEST_CASE(a_suspended_process_knows_at_its_first_look) {
  auto got = acquire(a, "w");
  advance(5s);
  slept = 25s;
  BOOST_TEST(!got.window->held());
  BOOST_TEST((got.window->why_lost() == ec::lease_window_exhausted));
}

BOOST_AUTO_TEST_CASE(warns_once_when_a_window_runs_low_and_when_it_is_safe) {
  acquire(a, "w");
  script->refuse = ec::unavailable;
  script->only = backend::op_kind::renew;
  advance(22500ms - 1ms);
  BOOST_TEST(seen->count("low 7s500ms 6") == 0u);
  advance(1ms);
  // Due at 15 s, tried again after 0.1, 0.2, 0.4, 0.8, 1.6 and 3.2 s.
  BOOST_TEST(seen->count("low 7s500ms 7") == 1u);
  script->refuse = ec::none;
  advance(5s);
  BOOST_TEST(seen->count("safe 30s") == 1u);
  BOOST_TEST(seen->count("low 7s500ms 7") == 1u);
  advance(10min);
  for (auto& event : seen->events)
    BOOST_TEST(event.find("lost") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_stalled_renewal_is_warned_of_too) {
  acquire(a, "w");
  *line_is_up = false;
  advance(22500ms);
  BOOST_TEST(seen->count("low 7s500ms 1") == 1u);
}

BOOST_AUTO_TEST_CASE(warnings_can_be_moved_and_switched_off) {
  auto early = options_for("early");
  early.warn_below = 20s;
  acquire(spawn_lease(early), "v");
  advance(10s);
  BOOST_TEST(seen->count("low 20s 0") == 1u);
  auto never = options_for("never");
  never.warn_below = duration::zero();
  acquire(spawn_lease(never), "w");
  seen->events.clear();
  *line_is_up = false;
  advance(29s);
  for (auto& event : seen->events)
    BOOST_TEST(event.find("low") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_loss_is_reported_with_all_that_led_to_it) {
  acquire(a, "w");
  advance(15s);
  script->refuse = ec::unavailable;
  advance(30s);
  BOOST_TEST(seen->count("lost lease_window_exhausted") == 1u);
  BOOST_TEST((seen->silent_for == 30s));
  BOOST_TEST(seen->last_error.find("unavailable") != std::string::npos);
  // From 15 s after the confirmation on: 0.1, 0.2, ... 3.2 s apart, then half
  // of what is left each time.
  BOOST_TEST_REQUIRE(seen->failed.size() >= 8u);
  BOOST_TEST((seen->failed.front().code == ec::unavailable));
  for (std::size_t i = 1; i < seen->failed.size(); ++i)
    BOOST_TEST((seen->failed[i].ago < seen->failed[i - 1].ago));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_counts_as_a_confirmation) {
  auto got = acquire(a, "w");
  advance(10s);
  ask<confirmation>(a, checkpoint_request{got.tok, "half"});
  script->refuse = ec::unavailable;
  advance(31s);
  BOOST_TEST(seen->count("lost lease_window_exhausted") == 1u);
  BOOST_TEST((seen->silent_for == 30s));
}

// contract 106, 131
BOOST_AUTO_TEST_CASE(fenced_ends_the_hold_at_once) {
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  steal("w");
  advance(15s);
  check_lost(down, ec::fenced);
  BOOST_TEST((got.window->why_lost() == ec::fenced));
  BOOST_TEST(renewals() == 1u);
  BOOST_TEST(seen->events.back() == "lost fenced");
  BOOST_TEST(seen->count("fenced Renew") == 1u);
}

// contract 105, 59
BOOST_AUTO_TEST_CASE(expired_is_final_and_matches_both_codes) {
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  store_skew = 20s; // The store sees the lease run out earlier than we do.
  advance(15s);
  check_lost(down, ec::lease_window_exhausted);
  check_lost(down, ec::lease_expired);
  BOOST_TEST(renewals() == 1u);
}

// contract 115
BOOST_AUTO_TEST_CASE(the_first_cause_stays_whatever_comes_later) {
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  script->refuse = ec::unavailable;
  advance(30s);
  script->refuse = ec::none;
  steal_expired();
  auto err = ask_error<confirmation>(a, renew_request{got.tok});
  BOOST_TEST(matches(err, ec::lease_window_exhausted));
  check_lost(down, ec::lease_window_exhausted);
}

// contract 109, 110, 112
BOOST_AUTO_TEST_CASE(stopping_is_immediate_idempotent_and_final) {
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  for (int i = 0; i < 3; ++i) {
    post_anon(a, stop_request{got.tok});
    run();
  }
  BOOST_TEST_REQUIRE(down->reason.has_value());
  BOOST_TEST((*down->reason == caf::error{}));
  advance(5min);
  BOOST_TEST(renewals() == 0u);
}

// contract 111 and A3 of its decisions
BOOST_AUTO_TEST_CASE(a_stopped_window_stays_readable_until_it_passes) {
  auto got = acquire(a, "w");
  post_anon(a, stop_request{got.tok});
  advance(10s);
  BOOST_TEST((got.window->left() == 20s));
  advance(20s);
  BOOST_TEST((got.window->left() == 0s));
}

// contract 113
BOOST_AUTO_TEST_CASE(an_answer_on_its_way_at_stop_has_no_effect) {
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  steal("w");
  set_time(base::now() + 15s);
  // Stop while the renewal is in the store.
  while (renewals() == 0 && (step() || next_timer())) {
    if (!step() && next_timer())
      fire_next_timer();
  }
  post_anon(a, stop_request{got.tok});
  run();
  advance(1min);
  BOOST_TEST(renewals() == 1u);
  BOOST_TEST_REQUIRE(down->reason.has_value());
}

// contract 120
BOOST_AUTO_TEST_CASE(never_renews_after_a_release) {
  auto got = acquire(a, "w");
  advance(20s);
  ask<confirmation>(a, release_request{got.tok, exit_mode::finished});
  auto before = renewals();
  advance(5min);
  BOOST_TEST(renewals() == before);
}

// contract 114
BOOST_AUTO_TEST_CASE(ends_with_its_lease) {
  auto got = acquire(a, "w");
  auto down = watch(got.hold);
  self->send_exit(a, caf::exit_reason::user_shutdown);
  run();
  check_reason(down, caf::exit_reason::user_shutdown);
  advance(5min);
  BOOST_TEST(renewals() == 0u);
}

BOOST_AUTO_TEST_CASE(an_unmanaged_lease_lapses_unless_it_is_kept) {
  auto got = acquire(a, "w", false);
  advance(20s);
  BOOST_TEST(renewals() == 0u);
  ask<confirmation>(a, keep_request{got.tok});
  advance(4s);
  BOOST_TEST(renewals() == 0u);
  advance(1s);
  BOOST_TEST(renewals() == 1u);
  advance(5min);
  BOOST_TEST(got.window->held());
}

BOOST_AUTO_TEST_CASE(a_grant_that_was_long_on_its_way_is_renewed_in_time) {
  auto options = options_for("node-c");
  options.store_timeout = 25s;
  auto c = spawn_lease(options);
  script->during = [this] { set_time(base::now() + 20s); };
  auto got = acquire(c, "w");
  BOOST_TEST((got.window->left() == 10s));
  advance(5min);
  BOOST_TEST(got.window->held());
}

// No window goes unwatched, whatever happens to the RENEWAL.
BOOST_AUTO_TEST_CASE(a_renewal_actor_that_failed_is_replaced) {
  struct throws_when_told : test::recording_observer {
    bool on = false;

    void on_renew(const token& tok, int attempt, duration left,
                  const result_info& info) override {
      test::recording_observer::on_renew(tok, attempt, left, info);
      if (on)
        throw std::runtime_error("a bad observer");
    }
  };

  auto bad = std::make_shared<throws_when_told>();
  auto options = options_for("node-c");
  options.observer = bad;
  auto c = spawn_lease(options);
  auto got = acquire(c, "w");
  auto down = watch(got.hold);
  advance(14s);
  bad->on = true;
  advance(1s);
  bad->on = false;
  advance(14s);
  BOOST_TEST(got.window->held());
  advance(5min);
  BOOST_TEST(!down->reason.has_value());
  bad->on = true;
  advance(1min);
  check_lost(down, ec::lease_window_exhausted);
  BOOST_TEST(bad->count("lost lease_window_exhausted") == 1u);
}

// One timer and one request, whatever the number of leases.
BOOST_AUTO_TEST_CASE(leases_that_are_due_together_share_a_request) {
  for (int i = 0; i < 200; ++i)
    acquire(a, "w" + std::to_string(i));
  script->calls = 0;
  advance(15s);
  BOOST_TEST(renewals() == 200u);
  BOOST_TEST(script->calls == 1);
}

BOOST_AUTO_TEST_CASE(a_thousand_scattered_leases_need_few_requests) {
  for (int i = 0; i < 1000; ++i) {
    acquire(a, "w" + std::to_string(i));
    advance(15ms);
  }
  advance(30s);
  script->calls = 0;
  advance(1min);
  BOOST_TEST(renewals() > 4000u);
  // ttl / 2 = 15 s in steps of a 64th: about 4.3 requests a second.
  BOOST_TEST(script->calls <= 64 * 4 + 8);
}

BOOST_AUTO_TEST_CASE(one_fenced_lease_does_not_touch_the_others) {
  auto first = acquire(a, "w1");
  auto second = acquire(a, "w2");
  auto down1 = watch(first.hold);
  auto down2 = watch(second.hold);
  steal("w1");
  advance(1h);
  check_lost(down1, ec::fenced);
  BOOST_TEST(!down2->reason.has_value());
}

BOOST_AUTO_TEST_CASE(a_fenced_caller_hears_of_its_end_before_the_answer) {
  auto got = acquire(a, "w");
  auto order = std::make_shared<std::vector<std::string>>();
  spawn_fn([this, got, order](caf::event_based_actor* me) {
    auto watching = std::make_shared<watches>(me);
    watching->add(me, got.hold,
                  [order](const caf::error&) { order->push_back("down"); });
    post(me, checkpoint_request{got.tok, "late"})
      .request(a, 1min)
      .then([order](const confirmation&) { order->push_back("stored"); },
            [order](const caf::error&) { order->push_back("refused"); });
    return caf::behavior{[watching](int) {}};
  });
  steal("w");
  run();
  std::vector<std::string> want{"down", "refused"};
  BOOST_TEST(*order == want, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_call_after_a_loss_is_answered_after_the_end_too) {
  auto got = acquire(a, "w");
  auto order = std::make_shared<std::vector<std::string>>();
  slept = 31s; // No timer has noticed.
  spawn_fn([this, got, order](caf::event_based_actor* me) {
    auto watching = std::make_shared<watches>(me);
    watching->add(me, got.hold,
                  [order](const caf::error&) { order->push_back("down"); });
    post(me, checkpoint_request{got.tok, "late"})
      .request(a, 1min)
      .then([order](const confirmation&) { order->push_back("stored"); },
            [order](const caf::error&) { order->push_back("refused"); });
    return caf::behavior{[watching](int) {}};
  });
  run();
  std::vector<std::string> want{"down", "refused"};
  BOOST_TEST(*order == want, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
