// SPDX-License-Identifier: Apache-2.0
#include "leasehold/runner.hpp"
#include "leasehold/worker.hpp"

#include "support/pool_world.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;
using namespace std::chrono_literals;

namespace {

using notes = std::shared_ptr<std::vector<std::string>>;

/// Counts up to `end`, with a checkpoint after each step.
class counter : public caf::event_based_actor {
public:
  counter(caf::actor_config& cfg, assignment job, int end)
    : caf::event_based_actor(cfg), job_(std::move(job)), end_(end) {
    end_with(this, job_.hold);
  }

protected:
  caf::behavior make_behavior() override {
    step(std::stoi(job_.found.state.value_or("0")));
    return {[](int) {}};
  }

  void on_exit() override {
    job_ = assignment{};
  }

private:
  void step(int count) {
    if (count == end_)
      return finish(this, job_, retired());
    checkpoint(this, job_, std::to_string(count + 1))
      .then([this, count](const confirmation&) { step(count + 1); });
  }

  assignment job_;
  int end_;
};

using poked_actor = typed_actor<caf::result<void>(std::string)>;

/// Stores what it is told until it is told to end.
class poked : public poked_actor::base {
public:
  poked(caf::actor_config& cfg, assignment job, notes log)
    : poked_actor::base(cfg), job_(std::move(job)), log_(std::move(log)) {
    end_with(this, job_.hold);
  }

protected:
  behavior_type make_behavior() override {
    return {[this](const std::string& what) {
      if (what == "end")
        return finish(this, job_, succeeded());
      checkpoint(this, job_, what)
        .then([this, what](const confirmation&) { log_->push_back(what); },
              [this](const caf::error& err) {
                log_->push_back(to_string(code_of(err)));
              });
    }};
  }

  void on_exit() override {
    log_->push_back("exit");
    job_ = assignment{};
  }

private:
  assignment job_;
  notes log_;
};

struct fixture : test::pool_world {
  notes log = std::make_shared<std::vector<std::string>>();
  /// The worker of the last run.
  caf::actor worker;

  /// Runs `work` once, on "w".
  auto start(worker_factory work) {
    runner_options options;
    options.lease = a;
    options.random = seeded_random(1);
    options.work = [this, work](caf::actor_system& system, assignment job) {
      return worker = track(work(system, std::move(job)));
    };
    auto runner = spawn_runner(sys, options);
    BOOST_TEST_REQUIRE(static_cast<bool>(runner));
    run_work request;
    request.work_id = "w";
    return call<run_result>(track(*runner), request);
  }

  void poke(const std::string& what) {
    post_anon(caf::actor_cast<poked_actor>(worker), what);
    run();
  }

  void check_log(std::vector<std::string> want) {
    BOOST_TEST(*log == want, boost::test_tools::per_element());
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(worker_suite, fixture)

// contract 127, 129
BOOST_AUTO_TEST_CASE(a_class_is_a_worker_by_one_call) {
  auto out = start(worker_of<counter>(3));
  BOOST_TEST_REQUIRE(out->result.has_value());
  BOOST_TEST((out->result->exit == exit_mode::retired));
  BOOST_TEST(row_of("w")->state.value() == "3");
  BOOST_TEST(script->count(backend::op_kind::checkpoint) == 3u);
}

BOOST_AUTO_TEST_CASE(each_run_has_an_actor_of_its_own) {
  auto work = worker_of<counter>(3);
  start(work);
  auto first = worker;
  auto out = start(work);
  BOOST_TEST((first.address() != worker.address()));
  BOOST_TEST_REQUIRE(out->result.has_value());
  // It found the state of the first.
  BOOST_TEST(script->count(backend::op_kind::checkpoint) == 3u);
}

BOOST_AUTO_TEST_CASE(a_typed_actor_is_a_worker_too) {
  auto out = start(worker_of<poked>(log));
  poke("one");
  BOOST_TEST(row_of("w")->state.value() == "one");
  poke("end");
  BOOST_TEST_REQUIRE(out->result.has_value());
  BOOST_TEST((out->result->exit == exit_mode::finished));
  check_log({"one", "exit"});
}

BOOST_AUTO_TEST_CASE(a_function_is_a_worker_and_ends_with_its_lease) {
  auto out = start(worker_from([](caf::event_based_actor* me, assignment) {
    return caf::behavior{[me](int) { me->quit(); }};
  }));
  auto end = watch(worker);
  steal("w");
  advance(15s);
  BOOST_TEST_REQUIRE(end->reason.has_value());
  BOOST_TEST(matches(*end->reason, ec::fenced));
  BOOST_TEST(matches(out->failed, ec::fenced));
}

// The README says that this is all a worker needs.
BOOST_AUTO_TEST_CASE(ten_lines_are_a_worker) {
  auto count = [](caf::event_based_actor* me, assignment job) {
    post(me, std::stoi(job.found.state.value_or("0"))).send(caf::actor{me});
    return caf::behavior{[me, job](int done) {
      if (done == 100)
        return finish(me, job, retired());
      checkpoint(me, job, std::to_string(done + 1))
        .then([me, done](const confirmation&) {
          post(me, done + 1).send(caf::actor{me});
        });
    }};
  };
  auto out = start(worker_from(count));
  BOOST_TEST_REQUIRE(out->result.has_value());
  BOOST_TEST((out->result->exit == exit_mode::retired));
  BOOST_TEST(row_of("w")->state.value() == "100");
}

BOOST_AUTO_TEST_CASE(a_checkpoint_is_answered_when_it_is_stored) {
  start(worker_of<poked>(log));
  auto stored_before = true;
  script->during = [&] {
    // The store has the request, the worker has no answer.
    stored_before = !log->empty();
  };
  poke("one");
  BOOST_TEST(!stored_before);
  BOOST_TEST(row_of("w")->state.value() == "one");
  check_log({"one"});
}

// contract 131
BOOST_AUTO_TEST_CASE(a_worker_that_is_fenced_ends_before_it_is_answered) {
  auto out = start(worker_of<poked>(log));
  auto end = watch(worker);
  steal("w");
  poke("late");
  // Nothing between: neither success nor refusal.
  check_log({"exit"});
  BOOST_TEST_REQUIRE(end->reason.has_value());
  BOOST_TEST(matches(*end->reason, ec::fenced));
  BOOST_TEST(matches(out->failed, ec::fenced));
  BOOST_TEST(!row_of("w")->state.has_value());
}

BOOST_AUTO_TEST_CASE(a_refused_checkpoint_is_an_answer_and_no_end) {
  auto out = start(worker_of<poked>(log));
  script->refuse = ec::unavailable;
  poke("one");
  check_log({"unavailable"});
  BOOST_TEST(!out->ended);
}

// Without a handler for errors.
BOOST_AUTO_TEST_CASE(a_refused_checkpoint_ends_a_worker_that_does_not_look) {
  script->refuse = ec::store_failed;
  script->only = backend::op_kind::checkpoint;
  auto out = start(worker_of<counter>(3));
  BOOST_TEST(matches(out->failed, ec::store_failed));
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
}

// contract 145
BOOST_AUTO_TEST_CASE(a_worker_function_that_throws_releases_nothing) {
  auto out = start(
    worker_from([](caf::event_based_actor*, assignment) -> caf::behavior {
      throw std::runtime_error("boom");
    }));
  BOOST_TEST(out->ended);
  BOOST_TEST(script->count(backend::op_kind::release) == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
