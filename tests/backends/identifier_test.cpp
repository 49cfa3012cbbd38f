// SPDX-License-Identifier: Apache-2.0
#include "leasehold/identifier.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;
using namespace std::string_literals;

BOOST_AUTO_TEST_SUITE(identifier_suite)

BOOST_AUTO_TEST_CASE(accepts_any_utf8_up_to_the_limit) {
  for (auto id :
       {"x"s, "x'; DROP TABLE--"s, "urn:job:1"s, "100%"s, "a?b"s, "\\"s, "\n"s,
        "\t"s, "-x"s, "   "s, "\u00e4\u4e16\U0001F600"s, std::string(512, 'x')})
    BOOST_TEST(identifier_problem(id) == "");
}

BOOST_AUTO_TEST_CASE(refuses_what_no_store_could_keep_apart) {
  BOOST_TEST(identifier_problem("") == "is empty");
  BOOST_TEST(identifier_problem(std::string(513, 'x'))
             == "is longer than 512 bytes");
  BOOST_TEST(identifier_problem("a\0b"s) == "contains a NUL byte");
  for (auto bad : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                   "a\xe4", "\x80", "\xe2\x82"})
    BOOST_TEST(identifier_problem(bad) == "is not valid UTF-8");
}

BOOST_AUTO_TEST_CASE(prints_ids_safely_and_briefly) {
  BOOST_TEST(printable("shard-7") == "\"shard-7\"");
  BOOST_TEST(printable("a\"b\\c\n\xff") == "\"a\\\"b\\\\c\\x0a\\xff\"");
  BOOST_TEST(printable(std::string(65, 'x'))
             == "\"" + std::string(64, 'x') + "...\"");
}

BOOST_AUTO_TEST_SUITE_END()
