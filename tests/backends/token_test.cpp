// SPDX-License-Identifier: Apache-2.0
#include "leasehold/token.hpp"

#include <boost/test/unit_test.hpp>

#include <type_traits>

using namespace leasehold;

// contract 24: readable, but not constructible or changeable by callers
static_assert(!std::is_constructible_v<token, std::string, std::string,
                                       std::int64_t, std::int64_t>);
static_assert(std::is_same_v<decltype(std::declval<token&>().work_id()),
                             const std::string&>);

BOOST_AUTO_TEST_SUITE(token_suite)

BOOST_AUTO_TEST_CASE(is_empty_by_default) {
  BOOST_TEST(token{}.empty());
  BOOST_TEST(to_string(token{}) == "token(empty)");
}

// contract 25
BOOST_AUTO_TEST_CASE(prints_who_what_and_until_when) {
  auto tok = internal::token_access::make("shard-7", "node-a",
                                          9'007'199'254'740'993, 1'000'000);
  BOOST_TEST(to_string(tok)
             == "token(work_id=\"shard-7\", holder_id=\"node-a\", "
                "number=9007199254740993, expires=1970-01-01T00:00:01.000Z)");
}

BOOST_AUTO_TEST_SUITE_END()
