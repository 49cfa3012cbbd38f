// SPDX-License-Identifier: Apache-2.0
#include "leasehold/retry.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>

using namespace leasehold;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(retry_suite)

// contract 99
BOOST_AUTO_TEST_CASE(waits_double_up_to_the_cap) {
  retry_policy policy;
  BOOST_TEST((retry_wait(policy, 1, 0) == 100ms));
  BOOST_TEST((retry_wait(policy, 2, 0) == 200ms));
  BOOST_TEST((retry_wait(policy, 3, 0) == 400ms));
  BOOST_TEST((retry_wait(policy, 6, 0) == 3200ms));
  BOOST_TEST((retry_wait(policy, 7, 0) == 5s));
  BOOST_TEST((retry_wait(policy, 1'000'000, 0) == 5s));
}

// contract 101
BOOST_AUTO_TEST_CASE(jitter_only_lengthens_and_never_reaches_its_bound) {
  retry_policy policy;
  auto almost_one = 1.0 - std::numeric_limits<double>::epsilon();
  BOOST_TEST((retry_wait(policy, 1, almost_one) < 120ms));
  BOOST_TEST((retry_wait(policy, 1, almost_one) > 119ms));
  BOOST_TEST((retry_wait(policy, 7, almost_one) < 6s));
}

// contract 100
BOOST_AUTO_TEST_CASE(impossible_policies_are_corrected) {
  auto fixed = normalized({0s, 0s, -1});
  BOOST_TEST((fixed.first == 1ms));
  BOOST_TEST((fixed.max == 1ms));
  BOOST_TEST(fixed.jitter == 0.0);
  BOOST_TEST((normalized({10s, 2s, 7}).first == 2s));
  BOOST_TEST(normalized({10s, 2s, 7}).jitter == 1.0);
  BOOST_TEST(
    normalized({1s, 2s, std::numeric_limits<double>::quiet_NaN()}).jitter
    == 0.0);
  BOOST_TEST((normalized({-5s, 2s, 0.5}).first == 1ms));
}

// contract 181
BOOST_AUTO_TEST_CASE(pauses_are_at_most_a_fifth_longer) {
  BOOST_TEST((jittered(1s, 0) == 1s));
  BOOST_TEST((jittered(1s, 0.999) < 1200ms));
  BOOST_TEST((jittered(1s, 0.5) == 1100ms));
}

BOOST_AUTO_TEST_SUITE_END()
