// SPDX-License-Identifier: Apache-2.0
#include "leasehold/event_sender.hpp"
#include "leasehold/pool.hpp"
#include "leasehold/vacuum.hpp"

#include "support/lease_world.hpp"

#include <boost/test/unit_test.hpp>

#include <deque>

using namespace leasehold;
using namespace std::chrono_literals;

namespace {

/// What a listener heard, in order of arrival.
struct heard {
  std::vector<lease_event> leases;
  std::vector<slot_event> slots;
  std::vector<sweep_event> sweeps;
  std::string all;
};

/// Owns what it listens to, if it is told to, and says when it is no more.
class listener : public caf::event_based_actor {
public:
  listener(caf::actor_config& cfg, std::shared_ptr<heard> log,
           std::shared_ptr<bool> alive)
    : caf::event_based_actor(cfg), log_(std::move(log)),
      alive_(std::move(alive)) {
    *alive_ = true;
  }

  ~listener() override {
    *alive_ = false;
  }

protected:
  caf::behavior make_behavior() override {
    return {
      [this](lease_event& x) { note(log_->leases, x); },
      [this](slot_event& x) { note(log_->slots, x); },
      [this](sweep_event& x) { note(log_->sweeps, x); },
      [this](const lease_actor& x) { source_ = x; },
    };
  }

private:
  template <class Event>
  void note(std::vector<Event>& to, Event& x) {
    log_->all += caf::deep_to_string(x);
    to.push_back(std::move(x));
  }

  std::shared_ptr<heard> log_;
  std::shared_ptr<bool> alive_;
  lease_actor source_;
};

struct fixture : test::lease_world {
  std::shared_ptr<heard> log = std::make_shared<heard>();
  std::shared_ptr<bool> alive = std::make_shared<bool>(false);
  caf::actor ear = spawn<listener>(log, alive);
  std::shared_ptr<event_sender> events = send_events_to(ear);
  lease_actor a = heard_node("node-a");

  lease_actor heard_node(std::string holder) {
    auto options = options_for(std::move(holder));
    options.observer = events;
    return spawn_lease(options);
  }

  /// Runs a pool of one work ID whose work ends at once with these results,
  /// and then does not end any more.
  pool_actor run_pool_with(std::deque<work_result> results) {
    auto left = std::make_shared<std::deque<work_result>>(std::move(results));
    pool_options options;
    options.lease = a;
    options.work_ids = {"w"};
    options.observer = events;
    options.random = seeded_random(1);
    options.work = [this, left](caf::actor_system&, assignment job) {
      return caf::actor{
        spawn_fn([left, job](caf::event_based_actor* me) -> caf::behavior {
          end_with(me, job.hold);
          if (!left->empty()) {
            auto result = std::move(left->front());
            left->pop_front();
            finish(me, job, std::move(result));
          }
          return {[](int) {}};
        })};
    };
    auto pool = track(*spawn_pool(sys, options));
    post(self, run_pool{}).send(pool);
    run();
    return pool;
  }

  std::string lease_kinds() {
    std::string result;
    for (auto& x : log->leases)
      result += to_string(x.kind) + " ";
    return result;
  }

  std::string slot_kinds() {
    std::string result;
    for (auto& x : log->slots)
      result += to_string(x.kind) + " ";
    return result;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(events_suite, fixture)

// contract 204, 205, 207
BOOST_AUTO_TEST_CASE(each_operation_of_a_lease_is_an_event_in_order) {
  auto before = acquire(node("node-b"), "w");
  (void)acquire_error(a, "w");
  auto old = internal::token_access::make("w", "node-b", before.tok.number(),
                                          before.tok.expires_us());
  auto op = backend::operation::checkpoint(old, 30s, "hunter2");
  data.execute({&op, 1});
  op = backend::operation::release(old, exit_mode::abandoned);
  data.execute({&op, 1});
  auto got = acquire(a, "w");
  ask<confirmation>(a, checkpoint_request{got.tok, "hunter22"});
  ask<prior>(a, read_request{got.tok});
  ask<confirmation>(a, renew_request{got.tok});
  ask<confirmation>(a, release_request{got.tok, exit_mode::finished});
  ask<confirmation>(a, forget_request{got.tok});
  (void)ask_error<prior>(a, read_request{got.tok});
  BOOST_TEST_REQUIRE(lease_kinds()
                     == "acquire acquire checkpoint read_checkpoint renew "
                        "release forget read_checkpoint ");
  auto& noted = log->leases;
  for (auto& x : noted)
    BOOST_TEST(x.work_id == "w");
  BOOST_TEST(noted[0].tok.empty());
  BOOST_TEST((noted[0].code == ec::lease_held));
  for (std::size_t i = 1; i < 7; ++i) {
    BOOST_TEST((noted[i].tok == got.tok));
    BOOST_TEST((noted[i].code == ec::none));
  }
  BOOST_TEST(noted[1].state_bytes == 7u);
  BOOST_TEST((noted[1].exit == exit_mode::abandoned));
  BOOST_TEST(noted[1].prior_holder == "node-b");
  BOOST_TEST(noted[2].state_bytes == 8u);
  BOOST_TEST(noted[3].state_bytes == 8u);
  BOOST_TEST((noted[3].exit == exit_mode::abandoned));
  BOOST_TEST(noted[3].prior_holder == "node-b");
  BOOST_TEST(noted[4].attempt == 1);
  BOOST_TEST((noted[4].window_left == 30s));
  BOOST_TEST((noted[5].exit == exit_mode::finished));
  // A read that failed has nothing to tell.
  BOOST_TEST((noted[7].code == ec::fenced));
  BOOST_TEST(noted[7].state_bytes == 0u);
  BOOST_TEST((noted[7].exit == exit_mode::none));
  BOOST_TEST(noted[7].prior_holder == "");
  BOOST_TEST(log->all.find("hunter2") == std::string::npos);
}

// contract 206, 208
BOOST_AUTO_TEST_CASE(a_duration_is_that_of_one_call_not_of_the_wait) {
  auto held = acquire(node("node-b"), "w");
  spawn_fn([this](caf::event_based_actor* me) {
    acquire_request request;
    request.work_id = "w";
    request.wait = true;
    post(me, request)
      .request(a, 1h)
      .then([](const grant&) {}, [](const caf::error&) {});
    return caf::behavior{[](int) {}};
  });
  run();
  advance(4s);
  script->during = [this] { set_time(base::now() + 70ms); };
  advance(2s);
  BOOST_TEST_REQUIRE(log->leases.size() == 4u);
  for (std::size_t i = 0; i < 3; ++i)
    BOOST_TEST((log->leases[i].took == 0s));
  BOOST_TEST((log->leases[3].took == 70ms));
}

// contract 205, 209
BOOST_AUTO_TEST_CASE(a_loss_is_told_directly_after_what_found_it) {
  auto got = acquire(a, "w");
  steal("w");
  advance(15s);
  BOOST_TEST_REQUIRE(lease_kinds() == "acquire renew fenced lost ");
  auto& fenced = log->leases[2];
  BOOST_TEST((fenced.tok == got.tok));
  BOOST_TEST(fenced.operation == "Renew");
  auto& lost = log->leases[3];
  BOOST_TEST((lost.tok == got.tok));
  BOOST_TEST((lost.code == ec::fenced));
  BOOST_TEST((lost.silent_for == 15s));
}

// contract 214
BOOST_AUTO_TEST_CASE(each_turn_of_a_slot_is_an_event_in_order) {
  run_pool_with({failed("no disk", "hunter2"), succeeded(), retired()});
  advance(10s);
  BOOST_TEST_REQUIRE(slot_kinds()
                     == "acquired released backoff acquired released acquired "
                        "released retired ");
  auto& noted = log->slots;
  for (auto& x : noted)
    BOOST_TEST(x.work_id == "w");
  BOOST_TEST((noted[1].exit == exit_mode::abandoned));
  BOOST_TEST((noted[2].code == ec::work_failed));
  BOOST_TEST(noted[2].detail == "no disk");
  BOOST_TEST((noted[2].span == 1s));
  BOOST_TEST(noted[3].state_bytes == 7u);
  BOOST_TEST((noted[3].exit == exit_mode::abandoned));
  BOOST_TEST(noted[3].prior_holder == "node-a");
  BOOST_TEST(!noted[7].tok.empty());
  BOOST_TEST(log->all.find("hunter2") == std::string::npos);
}

// contract 214
BOOST_AUTO_TEST_CASE(a_slot_tells_of_its_losses_and_of_its_end) {
  run_pool_with({});
  steal("w");
  advance(15s);
  BOOST_TEST_REQUIRE(slot_kinds() == "acquired lost ");
  BOOST_TEST((log->slots[1].code == ec::fenced));
  BOOST_TEST((log->slots[1].tok == log->slots[0].tok));
}

// contract 214
BOOST_AUTO_TEST_CASE(a_slot_tells_what_it_died_of) {
  run_pool_with({failed_for_good("bad input")});
  BOOST_TEST_REQUIRE(slot_kinds() == "acquired released dead ");
  BOOST_TEST((log->slots[2].code == ec::work_permanent));
  BOOST_TEST(log->slots[2].detail == "bad input");
}

// contract 213
BOOST_AUTO_TEST_CASE(each_sweep_is_an_event) {
  auto got = acquire(a, "w");
  ask<confirmation>(a, release_request{got.tok, exit_mode::retired});
  advance(2h);
  vacuum_options options;
  options.store = store;
  options.retention = 1h;
  options.include_expired = true;
  options.observer = events;
  auto aut = track(*spawn_vacuum(sys, options));
  ask<swept>(aut, sweep_now{});
  BOOST_TEST_REQUIRE(log->sweeps.size() == 1u);
  BOOST_TEST(
    (log->sweeps[0] == sweep_event{1h, true, 1, ec::none, ec::none, "", 0s}));
}

BOOST_AUTO_TEST_CASE(a_receiver_that_is_gone_disturbs_nobody) {
  auto got = acquire(a, "w");
  self->send_exit(ear, caf::exit_reason::kill);
  ear = nullptr;
  run();
  BOOST_TEST(!*alive);
  ask<confirmation>(a, checkpoint_request{got.tok, "x"});
  advance(5min);
  BOOST_TEST(got.window->held());
  // Nor does one that never was.
  send_events_to(caf::actor{})->on_forget(got.tok, {});
}

BOOST_AUTO_TEST_CASE(a_receiver_may_own_what_it_listens_to) {
  post(self, a).send(ear);
  run();
  // Nobody but its own source refers to it now.
  ear = nullptr;
  run();
  BOOST_TEST(!*alive);
}

BOOST_AUTO_TEST_SUITE_END()
