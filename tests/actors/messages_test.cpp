// SPDX-License-Identifier: Apache-2.0
#include "leasehold/messages.hpp"

#include "support/world.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace leasehold;

namespace {

using world = leasehold::test::world<caf::id_block::leasehold>;

} // namespace

BOOST_FIXTURE_TEST_SUITE(messages_suite, world)

BOOST_AUTO_TEST_CASE(errors_keep_their_codes_and_their_text) {
  auto err = fail(ec::lease_window_exhausted, "no answer since 12:01",
                  ec::lease_expired);
  BOOST_TEST((err == ec::lease_window_exhausted));
  BOOST_TEST((code_of(err) == ec::lease_window_exhausted));
  BOOST_TEST((also_of(err) == ec::lease_expired));
  BOOST_TEST(detail_of(err) == "no answer since 12:01");
  BOOST_TEST(render(err)
             == "lease_window_exhausted (lease_expired): no answer since "
                "12:01");
  BOOST_TEST(render(caf::error{}) == "none");
  BOOST_TEST(render(fail(ec::fenced)).starts_with("fenced: another holder"));
}

// contract 89, 105
BOOST_AUTO_TEST_CASE(errors_match_by_either_code_and_by_family) {
  auto err = fail(ec::lease_window_exhausted, {}, ec::lease_expired);
  BOOST_TEST(matches(err, ec::lease_window_exhausted));
  BOOST_TEST(matches(err, ec::lease_expired));
  BOOST_TEST(!matches(err, ec::fenced));
  BOOST_TEST(matches(fail(ec::pool_empty_work_id), ec::config_invalid));
  BOOST_TEST(!matches(caf::error{}, ec::fenced));
}

BOOST_AUTO_TEST_CASE(errors_of_the_framework_mean_that_nobody_knows) {
  caf::error timeout = caf::sec::request_timeout;
  BOOST_TEST((code_of(timeout) == ec::unknown_outcome));
  BOOST_TEST((also_of(timeout) == ec::none));
  BOOST_TEST(detail_of(timeout) == "");
}

BOOST_AUTO_TEST_SUITE_END()
