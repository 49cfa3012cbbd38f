// SPDX-License-Identifier: Apache-2.0
#include "leasehold/duration.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;
using namespace std::chrono_literals;

namespace {

void check_text(std::string_view text, std::optional<duration> want) {
  BOOST_TEST_CONTEXT("duration " << text) {
    auto got = parse_duration(text);
    BOOST_TEST(got.has_value() == want.has_value());
    if (got && want)
      BOOST_TEST(got->count() == want->count());
  }
}

} // namespace

BOOST_AUTO_TEST_SUITE(duration_suite)

BOOST_AUTO_TEST_CASE(reads_units_and_their_combinations) {
  check_text("250ms", 250ms);
  check_text("30s", 30s);
  check_text("1m30s", 90s);
  check_text("1h30m", 90min);
  check_text("1.5s", 1500ms);
  check_text("1d", 24h);
  check_text("100us", 100us);
  check_text("0", 0s);
  check_text("0s", 0s);
}

BOOST_AUTO_TEST_CASE(refuses_whatever_could_be_misread) {
  for (auto text : {"30",
                    "",
                    " 5s",
                    "5s ",
                    "-5s",
                    "+5s",
                    "5S",
                    "1e3s",
                    "inf",
                    "s",
                    "1m1h",
                    "1s1s",
                    "1.s",
                    ".5s",
                    "1ms2",
                    "999999999999h",
                    "101y",
                    "1,5s",
                    "99999999999999999999s",
                    "0.1us"})
    check_text(text, std::nullopt);
}

BOOST_AUTO_TEST_CASE(accepts_exactly_up_to_a_hundred_years) {
  check_text("36500d", max_duration);
  check_text("36500d1us", std::nullopt);
}

BOOST_AUTO_TEST_CASE(formats_what_it_reads) {
  for (auto x : {duration{1}, duration{250ms}, duration{90min},
                 duration{1500ms}, duration{0}, max_duration}) {
    auto text = format_duration(x);
    check_text(text, x);
  }
  BOOST_TEST(format_duration(90s) == "1m30s");
}

BOOST_AUTO_TEST_CASE(approximates_for_people) {
  BOOST_TEST(approximate(20ms) == "20ms");
  BOOST_TEST(approximate(4230ms) == "4.2s");
  BOOST_TEST(approximate(63min + 7s) == "1h3m");
  BOOST_TEST(approximate(-8200ms) == "-8.2s");
  BOOST_TEST(approximate(42s) == "42s");
}

BOOST_AUTO_TEST_CASE(reads_sizes) {
  BOOST_TEST(parse_size("4096").value() == 4096u);
  BOOST_TEST(parse_size("16MiB").value() == 16u * 1024 * 1024);
  BOOST_TEST(parse_size("1kB").value() == 1000u);
  BOOST_TEST(!parse_size("1 MiB").has_value());
  BOOST_TEST(!parse_size("-1").has_value());
  BOOST_TEST(!parse_size("99999999999GiB").has_value());
  BOOST_TEST(!parse_size("").has_value());
}

BOOST_AUTO_TEST_CASE(prints_times_in_utc) {
  BOOST_TEST(rfc3339(0) == "1970-01-01T00:00:00.000Z");
  BOOST_TEST(rfc3339(2147483647'123456) == "2038-01-19T03:14:07.123Z");
  BOOST_TEST(rfc3339(-1) == "1969-12-31T23:59:59.999Z");
}

BOOST_AUTO_TEST_SUITE_END()
