// SPDX-License-Identifier: Apache-2.0
//
// Units of work that wait, come and go while their pool runs.
#include "leasehold/pool.hpp"

#include "support/pool_world.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;
using namespace std::chrono_literals;

using leasehold::test::puppet;

namespace {

struct fixture : test::pool_world {
  pool_actor pool_of(std::vector<std::string> ids) {
    return make(options_for_pool(std::move(ids)));
  }

  caf::error add_error(const pool_actor& pool, std::vector<std::string> ids) {
    return call<added_work>(pool, add_work{std::move(ids)})->failed;
  }

  void add(const pool_actor& pool, std::vector<std::string> ids) {
    post_anon(pool, add_work{std::move(ids)});
    run();
  }

  auto remove(const pool_actor& pool, std::vector<std::string> ids,
              stop_mode how = stop_mode::stop) {
    return call<removed_work>(pool, remove_work{std::move(ids), how});
  }

  std::vector<std::string> names(int n) {
    std::vector<std::string> result;
    for (int i = 0; i < n; ++i)
      result.push_back("unit-" + std::to_string(i));
    return result;
  }

  /// Another process takes all of them.
  void take_all(const std::vector<std::string>& ids, duration ttl) {
    std::vector<backend::operation> ops;
    for (auto& id : ids)
      ops.push_back(backend::operation::acquire(id, "other", ttl));
    for (auto& got : data.execute(ops))
      BOOST_TEST_REQUIRE(got.ok());
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(pool_units_suite, fixture)

// -- waiting ------------------------------------------------------------------

// contract 177
BOOST_AUTO_TEST_CASE(ten_thousand_idle_slots_ask_the_store_together) {
  auto ids = names(10'000);
  take_all(ids, 1h);
  run_it(pool_of(ids));
  script->calls = 0;
  script->seen.clear();
  advance(12s);
  BOOST_TEST(script->calls >= 10);
  BOOST_TEST(script->calls <= 12);
  BOOST_TEST(script->seen.size()
             == static_cast<std::size_t>(script->calls) * ids.size());
}

// contract 177, 181
BOOST_AUTO_TEST_CASE(slots_that_wait_apart_come_together) {
  auto ids = names(20);
  take_all(ids, 10h);
  auto pool = pool_of({"unit-0"});
  run_it(pool);
  for (int i = 1; i < 20; ++i) {
    advance(97ms);
    add(pool, {ids[static_cast<std::size_t>(i)]});
  }
  advance(10min);
  script->calls = 0;
  script->seen.clear();
  advance(60s);
  BOOST_TEST(script->calls <= 60);
  // Each of them at least every 1.2 s, and none before 1 s.
  BOOST_TEST(script->seen.size() >= 20u * 50);
  BOOST_TEST(script->seen.size() <= 20u * 60);
}

BOOST_AUTO_TEST_CASE(a_slot_wakes_at_the_expiry_and_not_at_the_next_poll) {
  take_all({"w"}, 30s);
  auto options = options_for_pool({"w"});
  options.timing.idle = 1h;
  run_it(make(options));
  advance(30s - 1ms);
  BOOST_TEST(starts == 0);
  advance(10ms);
  BOOST_TEST(starts == 1);
  BOOST_TEST((jobs.at("w").found.exit == exit_mode::expired));
}

BOOST_AUTO_TEST_CASE(a_release_in_this_process_wakes_a_waiting_slot_at_once) {
  auto held = acquire(a, "w");
  auto options = options_for_pool({"w"});
  options.timing.idle = 1h;
  run_it(make(options));
  BOOST_TEST(starts == 0);
  ask<confirmation>(a, release_request{held.tok, exit_mode::abandoned});
  run();
  BOOST_TEST(starts == 1);
}

// contract 193: a slot that waits can be stopped
BOOST_AUTO_TEST_CASE(slots_that_wait_end_at_once) {
  auto ids = names(100);
  take_all(ids, 1h);
  auto pool = pool_of(ids);
  auto out = run_it(pool);
  advance(10s);
  post_anon(pool, stop_pool{});
  run();
  BOOST_TEST(out->ended);
  auto calls = script->calls;
  advance(1min);
  BOOST_TEST(script->calls == calls);
}

// -- drain and stop -----------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_drained_pool_lets_its_work_end_and_starts_no_more) {
  take_all({"idle"}, 1h);
  auto pool = pool_of({"v", "w", "idle"});
  auto out = run_it(pool);
  auto control = jobs.at("w").control;
  post_anon(pool, stop_pool{stop_mode::drain});
  advance(10min);
  BOOST_TEST(!control->stop_requested());
  BOOST_TEST(!out->ended);
  tell("v", succeeded("end"));
  BOOST_TEST((row_of("v")->exit == exit_mode::finished));
  tell("w", failed("no disk"));
  BOOST_TEST(out->ended);
  BOOST_TEST(out->result.has_value());
  advance(1min);
  BOOST_TEST(starts == 2);
}

BOOST_AUTO_TEST_CASE(a_drain_may_turn_into_a_stop) {
  auto pool = pool_of({"w"});
  auto out = run_it(pool);
  post_anon(pool, stop_pool{stop_mode::drain});
  run();
  post_anon(pool, stop_pool{stop_mode::stop});
  run();
  BOOST_TEST(out->ended);
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
}

// -- add and remove -----------------------------------------------------------

BOOST_AUTO_TEST_CASE(units_may_be_added_to_a_running_pool) {
  auto pool = pool_of({"v"});
  auto out = run_it(pool);
  add(pool, {"w", "x"});
  BOOST_TEST(starts == 3);
  tell("v", retired());
  tell("w", retired());
  BOOST_TEST(!out->ended);
  tell("x", retired());
  BOOST_TEST_REQUIRE(out->result.has_value());
  BOOST_TEST(out->result->retired == 3u);
}

BOOST_AUTO_TEST_CASE(units_may_be_added_before_a_run) {
  auto pool = pool_of({"v"});
  add(pool, {"w"});
  BOOST_TEST(starts == 0);
  run_it(pool);
  BOOST_TEST(starts == 2);
}

BOOST_AUTO_TEST_CASE(bad_additions_add_nothing) {
  auto pool = pool_of({"v"});
  run_it(pool);
  BOOST_TEST(matches(add_error(pool, {}), ec::pool_empty_work_ids));
  BOOST_TEST(matches(add_error(pool, {"w", ""}), ec::pool_empty_work_id));
  BOOST_TEST(matches(add_error(pool, {"w", "w"}), ec::pool_duplicate_work_id));
  auto twice = add_error(pool, {"w", "v"});
  BOOST_TEST(matches(twice, ec::pool_duplicate_work_id));
  BOOST_TEST(detail_of(twice).find("\"v\"") != std::string::npos);
  BOOST_TEST(starts == 1);
}

BOOST_AUTO_TEST_CASE(a_removed_unit_ends_and_the_others_do_not_notice) {
  auto pool = pool_of({"v", "w"});
  run_it(pool);
  auto other = watch(workers.at("v"));
  auto out = remove(pool, {"w"});
  BOOST_TEST_REQUIRE(out->result.has_value());
  BOOST_TEST(out->result->count == 1u);
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
  BOOST_TEST(!other->reason.has_value());
  BOOST_TEST(active(pool) == std::vector<std::string>{"v"},
             boost::test_tools::per_element());
  advance(1h);
  BOOST_TEST(starts == 2);
}

BOOST_AUTO_TEST_CASE(a_removal_is_answered_when_the_work_has_ended) {
  on_stop = [](puppet*) {};
  auto pool = pool_of({"v", "w"});
  run_it(pool);
  auto one = remove(pool, {"w", "w"});
  auto two = remove(pool, {"w"});
  advance(5s);
  BOOST_TEST(!one->ended);
  BOOST_TEST(!two->ended);
  tell("w", succeeded());
  BOOST_TEST(one->result.value().count == 1u);
  BOOST_TEST(two->result.value().count == 1u);
}

BOOST_AUTO_TEST_CASE(a_unit_may_be_drained_alone) {
  auto pool = pool_of({"v", "w"});
  run_it(pool);
  auto out = remove(pool, {"w"}, stop_mode::drain);
  advance(10min);
  BOOST_TEST(!out->ended);
  tell("w", succeeded());
  BOOST_TEST(out->ended);
  BOOST_TEST((row_of("w")->exit == exit_mode::finished));
}

BOOST_AUTO_TEST_CASE(a_unit_that_is_added_while_it_is_removed_starts_anew) {
  on_stop = [](puppet*) {};
  auto pool = pool_of({"w"});
  auto out = run_it(pool);
  auto gone = remove(pool, {"w"});
  BOOST_TEST(!add_error(pool, {"w"}));
  BOOST_TEST(matches(add_error(pool, {"w"}), ec::pool_duplicate_work_id));
  BOOST_TEST(starts == 1);
  tell("w", succeeded());
  BOOST_TEST(gone->ended);
  advance(2s);
  BOOST_TEST(starts == 2);
  BOOST_TEST(!out->ended);
}

BOOST_AUTO_TEST_CASE(an_unknown_unit_cannot_be_removed) {
  auto pool = pool_of({"w"});
  run_it(pool);
  auto out = remove(pool, {"w", "x"});
  BOOST_TEST(matches(out->failed, ec::invalid_argument));
  BOOST_TEST(detail_of(out->failed).find("\"x\"") != std::string::npos);
  BOOST_TEST(active(pool).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_pool_without_units_goes_on_until_it_is_stopped) {
  auto pool = pool_of({"w"});
  auto out = run_it(pool);
  remove(pool, {"w"});
  advance(1h);
  BOOST_TEST(!out->ended);
  add(pool, {"x"});
  BOOST_TEST(starts == 2);
  remove(pool, {"x"});
  post_anon(pool, stop_pool{});
  run();
  BOOST_TEST(out->result.has_value());
}

BOOST_AUTO_TEST_CASE(what_was_removed_does_not_decide_how_a_pool_ends) {
  auto pool = pool_of({"v", "w"});
  auto out = run_it(pool);
  tell("v", failed_for_good("bad input"));
  remove(pool, {"w"});
  BOOST_TEST_REQUIRE(out->ended);
  BOOST_TEST(matches(out->failed, ec::pool_all_slots_dead));
}

BOOST_AUTO_TEST_CASE(a_removed_unit_gives_its_permit_to_another) {
  auto options = options_for_pool({"v", "w"});
  options.max_held = 1;
  auto pool = make(options);
  run_it(pool);
  BOOST_TEST(active(pool) == std::vector<std::string>{"v"},
             boost::test_tools::per_element());
  remove(pool, {"v"});
  BOOST_TEST(active(pool) == std::vector<std::string>{"w"},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(no_permit_is_lost_when_units_come_and_go) {
  auto options = options_for_pool({"a", "b", "c"});
  options.max_held = 2;
  auto pool = make(options);
  run_it(pool);
  BOOST_TEST(active(pool).size() == 2u);
  for (int i = 0; i < 5; ++i) {
    // One that queues for a permit leaves, and another takes its place.
    auto running = active(pool);
    for (std::string id : {"a", "b", "c", "d"})
      if (std::find(running.begin(), running.end(), id) == running.end()) {
        remove(pool, {id});
        add(pool, {id == "d" ? "b" : "d"});
        break;
      }
    tell(running.front(), succeeded());
    advance(2s);
    BOOST_TEST(active(pool).size() == 2u);
  }
}

BOOST_AUTO_TEST_CASE(a_unit_that_returns_does_not_inherit_a_pause) {
  auto options = options_for_pool({"a", "b"});
  options.max_held = 1;
  options.timing.backoff = 10s;
  auto pool = make(options);
  run_it(pool);
  tell("a", failed("no disk"));
  BOOST_TEST(active(pool) == std::vector<std::string>{"b"},
             boost::test_tools::per_element());
  // It sleeps; removed and added again it queues for the only permit.
  remove(pool, {"a"});
  add(pool, {"a"});
  advance(30s);
  for (int i = 0; i < 4; ++i) {
    tell(active(pool).front(), failed("no disk"));
    advance(21s);
    BOOST_TEST(active(pool).size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(a_unit_that_was_added_again_survives_a_stop) {
  on_stop = [](puppet*) {};
  auto pool = pool_of({"w"});
  auto out = run_it(pool);
  remove(pool, {"w"});
  BOOST_TEST(!add_error(pool, {"w"}));
  post_anon(pool, stop_pool{});
  run();
  tell("w", succeeded());
  BOOST_TEST(out->ended);
  run_it(pool);
  BOOST_TEST(starts == 2);
}

BOOST_AUTO_TEST_CASE(a_pool_ends_when_its_lease_does) {
  auto pool = pool_of({"w", "x"});
  auto out = run_it(pool);
  self->send_exit(a, caf::exit_reason::user_shutdown);
  advance(1min);
  BOOST_TEST(matches(out->failed, ec::cancelled));
  BOOST_TEST(matches(run_it(pool)->failed, ec::cancelled));
}

BOOST_AUTO_TEST_CASE(whoever_waits_for_a_removal_is_told_when_the_pool_ends) {
  on_stop = [](puppet*) {};
  auto pool = pool_of({"w"});
  run_it(pool);
  auto out = remove(pool, {"w"});
  self->send_exit(pool, caf::exit_reason::user_shutdown);
  run();
  BOOST_TEST(matches(out->failed, ec::cancelled));
}

BOOST_AUTO_TEST_SUITE_END()
