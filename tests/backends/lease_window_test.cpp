// SPDX-License-Identifier: Apache-2.0
#include "leasehold/lease_window.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;
using namespace std::chrono_literals;

namespace {

struct fixture : window_clock {
  window_time time = 100s;

  window_time now() const noexcept override {
    return time;
  }

  lease_window aut{*this, 110s};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(lease_window_suite, fixture)

BOOST_AUTO_TEST_CASE(is_held_until_its_end_and_not_at_it) {
  BOOST_TEST(aut.held());
  BOOST_TEST((aut.left() == 10s));
  time = 110s - 1ns;
  BOOST_TEST(aut.held());
  time = 110s;
  BOOST_TEST(!aut.held());
  BOOST_TEST((aut.why_lost() == ec::lease_window_exhausted));
  BOOST_TEST((aut.left() == 0s));
}

// contract 97, 118
BOOST_AUTO_TEST_CASE(moves_forward_only) {
  BOOST_TEST(aut.extend(120s));
  BOOST_TEST((aut.end() == 120s));
  BOOST_TEST(aut.extend(115s));
  BOOST_TEST((aut.end() == 120s));
}

// contract 108, 212
BOOST_AUTO_TEST_CASE(a_late_confirmation_does_not_bring_it_back) {
  time = 111s;
  BOOST_TEST(!aut.extend(130s));
  BOOST_TEST((aut.end() == 110s));
  time = 105s; // Not even if the clock could go back.
  BOOST_TEST((aut.why_lost() == ec::lease_window_exhausted));
}

// contract 115
BOOST_AUTO_TEST_CASE(the_first_cause_stays) {
  aut.lose(ec::fenced);
  aut.lose(ec::lease_expired);
  time = 200s;
  BOOST_TEST((aut.why_lost() == ec::fenced));
  BOOST_TEST(!aut.extend(300s));
}

BOOST_AUTO_TEST_CASE(the_end_stays_readable_after_a_loss) {
  aut.lose(ec::fenced);
  BOOST_TEST((aut.left() == 0s));
  BOOST_TEST((aut.until_end() == 10s));
}

BOOST_AUTO_TEST_SUITE_END()
