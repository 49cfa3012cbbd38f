// SPDX-License-Identifier: Apache-2.0
#include "leasehold/nearest.hpp"

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace leasehold;

BOOST_AUTO_TEST_SUITE(nearest_suite)

BOOST_AUTO_TEST_CASE(finds_what_was_meant) {
  std::vector<std::string> words{"list", "show", "pool", "ttl"};
  BOOST_TEST(nearest(words, "lst") == "list");
  BOOST_TEST(nearest(words, "tll") == "ttl");
  BOOST_TEST(nearest(words, "poool") == "pool");
  BOOST_TEST(nearest(words, "list") == "list");
}

BOOST_AUTO_TEST_CASE(does_not_guess_wildly) {
  std::vector<std::string> words{"list", "show", "io"};
  BOOST_TEST(nearest(words, "colour") == "");
  BOOST_TEST(nearest(words, "") == "");
  BOOST_TEST(nearest(words, "xy") == "");
  // Of three letters, two that differ leave another word.
  words = {"log", "store", "pool"};
  BOOST_TEST(nearest(words, "foo") == "");
  BOOST_TEST(nearest(words, "lgo") == "log");
  BOOST_TEST(nearest(words, "sotre") == "store");
  BOOST_TEST(nearest({}, "list") == "");
}

BOOST_AUTO_TEST_SUITE_END()
