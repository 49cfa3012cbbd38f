// SPDX-License-Identifier: Apache-2.0
#include "process_support.hpp"

using namespace leasehold;
using namespace leasehold::process;
using namespace leasehold::process::test;

namespace {

bool none_alive(const std::vector<pid_t>& pids) {
  return std::none_of(pids.begin(), pids.end(), is_alive);
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(process_window_suite, world)

BOOST_AUTO_TEST_CASE(stop_sends_the_signal_of_choice) {
  auto x = start(spec({"polite"}));
  output->wait_for("ready");
  aut->stop(x->id);
  auto result = x->result();
  BOOST_TEST((result.how == child_exit::kind::exited));
  BOOST_TEST(result.code == 7);
  BOOST_TEST(result.stop_requested);
  BOOST_TEST(!result.killed);
}

// hashicorp/consul#3572
BOOST_AUTO_TEST_CASE(a_stopped_child_can_react_to_the_stop_signal) {
  auto x = start(spec({"polite", "stopped"}));
  auto pid = numbers_in(output->wait_for("ready")).front();
  BOOST_REQUIRE(eventually([pid] {
    std::ifstream in{"/proc/" + std::to_string(pid) + "/stat"};
    std::string text;
    std::getline(in, text);
    return text.find(") T ") != std::string::npos;
  }));
  aut->stop(x->id);
  BOOST_TEST(x->result().code == 7);
}

BOOST_AUTO_TEST_CASE(who_ignores_the_signal_is_killed_after_the_grace) {
  auto what = spec({"stubborn", "3"});
  what.grace = 100ms;
  auto x = start(what);
  auto pids = numbers_in(output->wait_for("ready"));
  BOOST_TEST(pids.size() == 4u);
  aut->stop(x->id);
  auto result = x->result();
  BOOST_TEST(none_alive(pids));
  BOOST_TEST(result.code == SIGKILL);
  BOOST_TEST(result.killed);
}

// hashicorp/consul#9788: the child outlived its lock by far. Here nobody
// calls stop, and all of the group ignore signals.
BOOST_AUTO_TEST_CASE(nothing_of_the_group_outlives_the_window) {
  for (auto round = 0; round < 5; ++round) {
    auto what = spec({"stubborn", "3"});
    auto lease = window(700ms);
    what.window = lease;
    what.stop_before = 400ms;
    what.kill_before = 200ms;
    auto x = start(what);
    auto pids = numbers_in(output->wait_for("ready"));
    auto result = x->result();
    BOOST_TEST(none_alive(pids));
    BOOST_TEST((lease->until_end() > 0ns));
    BOOST_TEST((lease->until_end() <= 200ms));
    BOOST_TEST(result.stop_requested);
    BOOST_TEST(result.killed);
  }
}

BOOST_AUTO_TEST_CASE(the_grace_does_not_reach_beyond_the_window) {
  auto what = spec({"stubborn", "1"});
  auto lease = window(500ms);
  what.window = lease;
  what.grace = 1h;
  what.kill_before = 200ms;
  auto x = start(what);
  output->wait_for("ready");
  aut->stop(x->id);
  BOOST_TEST(x->result().killed);
  BOOST_TEST((lease->until_end() > 0ns));
}

BOOST_AUTO_TEST_CASE(a_window_that_moves_in_time_keeps_the_child) {
  auto what = spec({"polite"});
  auto lease = window(300ms);
  what.window = lease;
  what.stop_before = 100ms;
  what.kill_before = 50ms;
  auto x = start(what);
  output->wait_for("ready");
  auto& clock = system_window_clock();
  auto until = clock.now() + 1s;
  while (clock.now() < until) {
    BOOST_REQUIRE(lease->extend(clock.now() + 300ms));
    BOOST_REQUIRE(
      (x->ended_future.wait_for(20ms) == std::future_status::timeout));
  }
  auto result = x->result(); // nobody renews any more
  BOOST_TEST(result.stop_requested);
  BOOST_TEST(result.code == 7);
}

BOOST_AUTO_TEST_CASE(a_lost_lease_stops_the_child_at_once) {
  auto what = spec({"polite"});
  auto lease = window(1h);
  what.window = lease;
  auto x = start(what);
  output->wait_for("ready");
  lease->lose(ec::fenced);
  aut->check_now();
  BOOST_TEST(x->result().code == 7);
}

BOOST_AUTO_TEST_CASE(nothing_starts_when_the_window_is_over) {
  auto what = spec({"polite"});
  what.window = window(50ms);
  what.kill_before = 60ms;
  auto result = run(what);
  BOOST_TEST((result.how == child_exit::kind::not_started));
  BOOST_TEST(result.code == ECANCELED);
}

// hashicorp/consul#1155: a stop that arrives while the child is being started.
BOOST_AUTO_TEST_CASE(a_stop_right_after_the_start_is_not_forgotten) {
  for (auto i = 0; i < 100; ++i) {
    auto x = start(spec({"polite"}));
    aut->stop(x->id);
    auto result = x->result();
    BOOST_TEST(result.stop_requested);
    BOOST_TEST((result.code == 7 || result.code == SIGTERM));
    BOOST_TEST(!result.killed);
  }
}

BOOST_AUTO_TEST_CASE(what_the_leader_leaves_behind_is_killed) {
  auto x = start(spec({"orphan"}));
  auto pids = numbers_in(output->wait_for("ready"));
  auto result = x->result();
  BOOST_TEST(none_alive(pids));
  BOOST_TEST(result.code == 0);
  BOOST_TEST(!result.killed);
}

BOOST_AUTO_TEST_CASE(kill_ends_the_group) {
  auto x = start(spec({"stubborn", "2"}));
  auto pids = numbers_in(output->wait_for("ready"));
  aut->kill(x->id);
  BOOST_TEST(x->result().killed);
  BOOST_TEST(none_alive(pids));
}

BOOST_AUTO_TEST_CASE(signals_are_forwarded) {
  auto x = start(spec({"polite"}));
  output->wait_for("ready");
  aut->signal(x->id, SIGTERM);
  auto result = x->result();
  BOOST_TEST(result.code == 7);
  BOOST_TEST(!result.stop_requested);
}

BOOST_AUTO_TEST_SUITE_END()
