// SPDX-License-Identifier: Apache-2.0
#include "leasehold/vacuum.hpp"

#include "support/lease_world.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;
using namespace std::chrono_literals;

namespace {

struct sweeps : vacuum_observer {
  int seen = 0;
  std::uint64_t deleted = 0;
  ec last = ec::none;

  void on_sweep(duration, bool, std::uint64_t n,
                const result_info& info) override {
    ++seen;
    deleted += n;
    last = info.code;
  }
};

struct fixture : test::lease_world {
  lease_actor a = node("node-a");
  std::shared_ptr<sweeps> log = std::make_shared<sweeps>();

  vacuum_options options_for_sweeping(duration every = 0s) {
    vacuum_options options;
    options.store = store;
    options.retention = 1h;
    options.every = every;
    options.observer = log;
    return options;
  }

  vacuum_actor make(vacuum_options options) {
    auto got = spawn_vacuum(sys, std::move(options));
    BOOST_TEST_REQUIRE(static_cast<bool>(got));
    run();
    return track(*got);
  }

  void end_as(const std::string& work_id, exit_mode mode) {
    auto got = acquire(a, work_id);
    ask<confirmation>(a, release_request{got.tok, mode});
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(vacuum_suite, fixture)

// contract 223, 224
BOOST_AUTO_TEST_CASE(refuses_options_that_cannot_work) {
  auto options = options_for_sweeping();
  options.store = nullptr;
  BOOST_TEST(matches(check(options), ec::nil_backend));
  BOOST_TEST(matches(check(options), ec::config_invalid));
  for (auto retention : {duration{0}, duration{-1s}}) {
    options = options_for_sweeping();
    options.retention = retention;
    BOOST_TEST(matches(check(options), ec::retention_required));
    BOOST_TEST(matches(check(options), ec::config_invalid));
    BOOST_TEST(!spawn_vacuum(sys, options));
  }
  BOOST_TEST(log->seen == 0);
}

// contract 225, 226, 227, 229
BOOST_AUTO_TEST_CASE(deletes_old_retired_rows_and_nothing_else) {
  end_as("retired", exit_mode::retired);
  end_as("finished", exit_mode::finished);
  end_as("abandoned", exit_mode::abandoned);
  acquire(a, "held");
  advance(2h);
  end_as("young", exit_mode::retired);
  auto aut = make(options_for_sweeping());
  BOOST_TEST(ask<swept>(aut, sweep_now{}).deleted == 1u);
  BOOST_TEST(!row_of("retired").has_value());
  for (auto id : {"finished", "abandoned", "held", "young"})
    BOOST_TEST(row_of(id).has_value());
}

// contract 225, 230
BOOST_AUTO_TEST_CASE(deletes_vanished_holders_only_when_told) {
  auto gone = acquire(a, "w", false);
  advance(2h);
  BOOST_TEST(ask<swept>(make(options_for_sweeping()), sweep_now{}).deleted
             == 0u);
  auto options = options_for_sweeping();
  options.include_expired = true;
  BOOST_TEST(ask<swept>(make(options), sweep_now{}).deleted == 1u);
  auto next = acquire(node("node-b"), "w");
  BOOST_TEST((next.found == prior{}));
  BOOST_TEST(next.tok.number() > gone.tok.number());
}

// contract 213
BOOST_AUTO_TEST_CASE(sweeps_on_schedule_and_reports_each) {
  make(options_for_sweeping(1h));
  advance(1h - 1ms);
  BOOST_TEST(log->seen == 0);
  advance(1ms);
  BOOST_TEST(log->seen == 1);
  advance(24h);
  BOOST_TEST(log->seen == 25);
}

BOOST_AUTO_TEST_CASE(without_a_schedule_it_sweeps_only_when_asked) {
  auto aut = make(options_for_sweeping());
  advance(48h);
  BOOST_TEST(log->seen == 0);
  ask<swept>(aut, sweep_now{});
  BOOST_TEST(log->seen == 1);
}

BOOST_AUTO_TEST_CASE(a_store_that_is_gone_costs_one_sweep_not_the_schedule) {
  auto silent = spawn_fn([](backend_actor::pointer) {
    return backend_actor::behavior_type{
      [](store_request&) -> caf::result<store_reply> { return store_reply{}; },
      [](list_request&) -> caf::result<backend::listing> {
        return backend::listing{};
      },
      [](sweep_request&) -> caf::result<backend::sweep_result> {
        backend::sweep_result refusal;
        refusal.code = ec::unavailable;
        return refusal;
      },
    };
  });
  auto options = options_for_sweeping(1h);
  options.store = silent;
  auto aut = make(options);
  advance(3h);
  BOOST_TEST(log->seen == 3);
  BOOST_TEST((log->last == ec::unavailable));
  BOOST_TEST(matches(ask_error<swept>(aut, sweep_now{}), ec::unavailable));
}

BOOST_AUTO_TEST_SUITE_END()
