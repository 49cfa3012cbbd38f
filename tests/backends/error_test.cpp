// SPDX-License-Identifier: Apache-2.0
#include "leasehold/error.hpp"
#include "leasehold/exit_mode.hpp"

#include <boost/test/unit_test.hpp>

#include <set>

using namespace leasehold;

BOOST_AUTO_TEST_SUITE(error_suite)

BOOST_AUTO_TEST_CASE(names_and_explains_every_code) {
  std::set<std::string> names;
  for (unsigned raw = 0; raw <= static_cast<unsigned>(last_ec); ++raw) {
    ec code{};
    BOOST_TEST_REQUIRE(from_integer(static_cast<std::uint8_t>(raw), code));
    ec back{};
    BOOST_TEST_REQUIRE(from_string(to_string(code), back));
    BOOST_TEST((back == code));
    BOOST_TEST(!explain(code).empty());
    names.insert(to_string(code));
  }
  BOOST_TEST(names.size() == static_cast<std::size_t>(last_ec) + 1);
  ec none{};
  BOOST_TEST(!from_integer(static_cast<std::uint8_t>(last_ec) + 1, none));
  BOOST_TEST(!from_string("no such code", none));
}

// contract 6, 87, 172
BOOST_AUTO_TEST_CASE(construction_errors_match_their_umbrella) {
  BOOST_TEST(matches(ec::ttl_invalid, ec::config_invalid));
  BOOST_TEST(matches(ec::nil_backend, ec::config_invalid));
  BOOST_TEST(matches(ec::pool_empty_work_id, ec::config_invalid));
  BOOST_TEST(matches(ec::pool_empty_work_id, ec::pool_config_invalid));
  BOOST_TEST(matches(ec::pool_config_invalid, ec::config_invalid));
  BOOST_TEST(!matches(ec::ttl_invalid, ec::pool_config_invalid));
  BOOST_TEST(!matches(ec::fenced, ec::config_invalid));
  BOOST_TEST(!matches(ec::config_invalid, ec::ttl_invalid));
}

// contract 221, 222
BOOST_AUTO_TEST_CASE(exit_modes_print_their_names) {
  BOOST_TEST(to_string(exit_mode{}) == "none");
  BOOST_TEST(to_string(exit_mode::finished) == "finished");
  BOOST_TEST(to_string(exit_mode::abandoned) == "abandoned");
  BOOST_TEST(to_string(exit_mode::retired) == "retired");
  BOOST_TEST(to_string(exit_mode::expired) == "expired");
  BOOST_TEST(to_string(static_cast<exit_mode>(9)) == "exit_mode(9)");
}

// contract 220
BOOST_AUTO_TEST_CASE(an_unknown_word_in_a_store_reads_as_expired) {
  BOOST_TEST((exit_mode_from_store("retired") == exit_mode::retired));
  BOOST_TEST((exit_mode_from_store("paused") == exit_mode::expired));
  BOOST_TEST((exit_mode_from_store("") == exit_mode::expired));
}

// contract 62
BOOST_AUTO_TEST_CASE(only_three_modes_may_be_declared) {
  BOOST_TEST(is_declarable(exit_mode::finished));
  BOOST_TEST(is_declarable(exit_mode::abandoned));
  BOOST_TEST(is_declarable(exit_mode::retired));
  BOOST_TEST(!is_declarable(exit_mode::none));
  BOOST_TEST(!is_declarable(exit_mode::expired));
  BOOST_TEST(!is_declarable(static_cast<exit_mode>(7)));
}

BOOST_AUTO_TEST_SUITE_END()
