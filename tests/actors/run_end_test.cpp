// SPDX-License-Identifier: Apache-2.0
#include "leasehold/run_end.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;
using namespace leasehold::internal;

namespace {

void check_plan(run_facts facts, bool checkpoint, exit_mode release,
                ec result) {
  BOOST_TEST_CONTEXT("work " << to_string(facts.work) << ", lost "
                             << to_string(facts.lost)) {
    auto plan = plan_end(facts);
    BOOST_TEST(plan.checkpoint == checkpoint);
    BOOST_TEST((plan.release == release));
    BOOST_TEST((plan.result == result));
  }
}

run_plan plan_of(ec work) {
  return plan_end({work, ec::none, true});
}

} // namespace

BOOST_AUTO_TEST_SUITE(run_end_suite)

// contract 128, 129, 130, 148
BOOST_AUTO_TEST_CASE(what_the_work_said_decides_while_the_lease_is_held) {
  check_plan({ec::none, ec::none, true}, true, exit_mode::finished, ec::none);
  check_plan({ec::none, ec::none, false}, false, exit_mode::finished, ec::none);
  check_plan({ec::retire, ec::none, true}, true, exit_mode::retired, ec::none);
  check_plan({ec::work_failed, ec::none, true}, true, exit_mode::abandoned,
             ec::work_failed);
  check_plan({ec::work_permanent, ec::none, false}, false, exit_mode::abandoned,
             ec::work_permanent);
}

// contract 131, 133
BOOST_AUTO_TEST_CASE(fenced_comes_before_everything) {
  for (auto work : {ec::none, ec::retire, ec::work_failed, ec::work_threw})
    check_plan({work, ec::fenced, true}, false, exit_mode::none, ec::fenced);
  check_plan({ec::fenced, ec::none, true}, false, exit_mode::none, ec::fenced);
  check_plan({ec::fenced, ec::lease_window_exhausted, true}, false,
             exit_mode::none, ec::fenced);
}

// contract 132, 134
BOOST_AUTO_TEST_CASE(a_lost_window_records_nothing) {
  auto lost = ec::lease_window_exhausted;
  check_plan({ec::none, lost, true}, false, exit_mode::none, lost);
  check_plan({ec::retire, lost, true}, false, exit_mode::none, ec::retire);
  check_plan({ec::work_failed, lost, true}, false, exit_mode::none,
             ec::work_failed);
  check_plan({ec::work_permanent, lost, true}, false, exit_mode::none,
             ec::work_permanent);
}

// contract 145
BOOST_AUTO_TEST_CASE(work_that_threw_releases_nothing) {
  check_plan({ec::work_threw, ec::none, true}, false, exit_mode::none,
             ec::work_threw);
}

// contract 140, 141
BOOST_AUTO_TEST_CASE(a_failed_final_checkpoint_decides_the_release) {
  auto fenced = after_checkpoint(plan_of(ec::none), ec::fenced);
  BOOST_TEST((fenced.release == exit_mode::none));
  BOOST_TEST((fenced.result == ec::fenced));
  auto failed = after_checkpoint(plan_of(ec::none), ec::unavailable);
  BOOST_TEST((failed.release == exit_mode::abandoned));
  BOOST_TEST((failed.result == ec::unavailable));
  auto retired = after_checkpoint(plan_of(ec::retire), ec::unavailable);
  BOOST_TEST((retired.release == exit_mode::abandoned));
  BOOST_TEST((retired.result == ec::unavailable));
  auto both = after_checkpoint(plan_of(ec::work_failed), ec::unavailable);
  BOOST_TEST((both.result == ec::work_failed));
  auto fine = after_checkpoint(plan_of(ec::none), ec::none);
  BOOST_TEST((fine.release == exit_mode::finished));
}

// contract 142, 143, 144
BOOST_AUTO_TEST_CASE(a_failed_release_counts_only_if_nothing_failed_before) {
  BOOST_TEST((after_release(plan_of(ec::none), ec::none) == ec::none));
  BOOST_TEST(
    (after_release(plan_of(ec::none), ec::lease_expired) == ec::lease_expired));
  BOOST_TEST((after_release(plan_of(ec::work_failed), ec::unavailable)
              == ec::work_failed));
  BOOST_TEST(
    (after_release(plan_of(ec::work_failed), ec::fenced) == ec::fenced));
}

// contract 178, 179, 182, 183, 184, 186, 187
BOOST_AUTO_TEST_CASE(a_slot_goes_on_retires_or_dies) {
  BOOST_TEST((after_run(ec::none, exit_mode::finished) == next_step::rerun));
  BOOST_TEST((after_run(ec::none, exit_mode::retired) == next_step::retire));
  BOOST_TEST((after_run(ec::fenced, exit_mode::none) == next_step::again));
  BOOST_TEST(
    (after_run(ec::work_failed, exit_mode::abandoned) == next_step::backoff));
  BOOST_TEST((after_run(ec::lease_window_exhausted, exit_mode::none)
              == next_step::backoff));
  BOOST_TEST((after_run(ec::retire, exit_mode::none) == next_step::backoff));
  BOOST_TEST(
    (after_run(ec::work_permanent, exit_mode::abandoned) == next_step::die));
}

// contract 185
BOOST_AUTO_TEST_CASE(an_error_is_permanent_only_if_it_says_so) {
  for (unsigned raw = 1; raw <= static_cast<unsigned>(last_ec); ++raw) {
    ec code{};
    BOOST_TEST_REQUIRE(from_integer(static_cast<std::uint8_t>(raw), code));
    BOOST_TEST_CONTEXT(to_string(code)) {
      auto dies = after_run(code, exit_mode::abandoned) == next_step::die;
      BOOST_TEST(dies == (code == ec::work_permanent));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
