// SPDX-License-Identifier: Apache-2.0
#include "leasehold/clock.hpp"

#include <boost/test/unit_test.hpp>

#include <ctime>

using namespace leasehold;

namespace {

window_time since_boot() {
  timespec ts{};
  BOOST_TEST_REQUIRE(clock_gettime(CLOCK_BOOTTIME, &ts) == 0);
  return std::chrono::seconds{ts.tv_sec} + window_time{ts.tv_nsec};
}

} // namespace

BOOST_AUTO_TEST_SUITE(clock_suite)

// contract 98
BOOST_AUTO_TEST_CASE(the_window_clock_is_that_of_the_machine_since_its_start) {
  auto& aut = system_window_clock();
  auto last = window_time{0};
  for (int i = 0; i < 1000; ++i) {
    auto before = since_boot();
    auto now = aut.now();
    auto after = since_boot();
    BOOST_TEST_REQUIRE((before <= now && now <= after));
    BOOST_TEST_REQUIRE((last <= now));
    last = now;
  }
}

BOOST_AUTO_TEST_SUITE_END()
