// SPDX-License-Identifier: Apache-2.0
#include "leasehold/codec/binary.hpp"
#include "leasehold/codec/work.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <string>
#include <vector>

namespace {

struct step {
  std::string name;
  std::int64_t done = 0;
  std::optional<std::string> note;
  leasehold::exit_mode how = leasehold::exit_mode::none;

  friend bool operator==(const step&, const step&) = default;
};

template <class Inspector>
auto inspect(Inspector& f, step& x) {
  using leasehold::field;
  return leasehold::fields(f, x, field("name", x.name), field("done", x.done),
                           field("note", x.note), field("how", x.how));
}

struct plan {
  int next = 1;
  std::vector<step> steps;
  std::map<std::string, double> totals;

  friend bool operator==(const plan&, const plan&) = default;
};

template <class Inspector>
auto inspect(Inspector& f, plan& x) {
  using leasehold::field;
  return leasehold::fields(f, x, field("next", x.next), field("steps", x.steps),
                           field("totals", x.totals));
}

struct with_handle {
  caf::actor who;
};

template <class Inspector>
auto inspect(Inspector& f, with_handle& x) {
  return leasehold::fields(f, x, leasehold::field("who", x.who));
}

} // namespace

using namespace leasehold;

namespace {

plan some_plan() {
  plan result;
  result.next = -7;
  result.steps = {{"count", 40'000, "half", exit_mode::abandoned},
                  {std::string{"a\0b", 3}, -1, std::nullopt, exit_mode::none}};
  result.totals = {{"eu", 0.1}, {"us", -1e300}};
  return result;
}

void check_unreadable(const std::string& bytes) {
  auto got = decode<plan>(bytes, codec::binary{});
  BOOST_TEST_REQUIRE(!got);
  BOOST_TEST((got.error().code == ec::state_unreadable));
  BOOST_TEST(!got.error().detail.empty());
  BOOST_TEST(got.error().detail.find("count") == std::string::npos);
}

// Registers the types that errors are made of; the codec itself needs none.
struct fixture {
  config_base<caf::id_block::leasehold> cfg;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(codec_suite, fixture)

// contract 199, 203
BOOST_AUTO_TEST_CASE(binary_gives_back_what_it_was_given) {
  for (auto& x : {plan{}, some_plan()}) {
    auto bytes = encode(x, codec::binary{});
    BOOST_TEST_REQUIRE(static_cast<bool>(bytes));
    BOOST_TEST((*decode<plan>(*bytes, codec::binary{}) == x));
  }
  BOOST_TEST(*decode<int>(*encode(42, codec::binary{}), codec::binary{}) == 42);
}

// contract 200
BOOST_AUTO_TEST_CASE(binary_reads_no_state_as_the_default_value) {
  BOOST_TEST((*decode<plan>(std::nullopt, codec::binary{}) == plan{}));
  // A value of no bytes is stored as something, too.
  BOOST_TEST(!encode(std::string{}, codec::binary{})->empty());
}

BOOST_AUTO_TEST_CASE(binary_refuses_what_was_cut_off_or_added) {
  auto bytes = *encode(some_plan(), codec::binary{});
  for (std::size_t n = 0; n < bytes.size(); ++n)
    check_unreadable(bytes.substr(0, n));
  check_unreadable(bytes + '\0');
}

BOOST_AUTO_TEST_CASE(binary_refuses_every_flipped_bit) {
  auto bytes = *encode(some_plan(), codec::binary{});
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (auto bit = 0; bit < 8; ++bit) {
      auto damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      check_unreadable(damaged);
    }
}

BOOST_AUTO_TEST_CASE(binary_tells_other_states_from_damaged_ones) {
  auto got = decode<plan>("{\"next\":1}", codec::binary{});
  BOOST_TEST(got.error().detail
             == "the state of 10 bytes was not written by this codec, or is "
                "cut off");
  got = decode<plan>(*encode(std::string{"count"}, codec::binary{}),
                     codec::binary{});
  BOOST_TEST((got.error().code == ec::state_unreadable));
  auto bytes = *encode(some_plan(), codec::binary{});
  bytes[3] = '9';
  BOOST_TEST(decode<plan>(bytes, codec::binary{}).error().detail
             == "the state was written with another version of CAF");
}

BOOST_AUTO_TEST_CASE(binary_takes_no_more_members_than_an_enum_has) {
  auto bytes
    = *encode(step{"x", 1, {}, static_cast<exit_mode>(99)}, codec::binary{});
  BOOST_TEST(!decode<step>(bytes, codec::binary{}));
}

// contract 201
BOOST_AUTO_TEST_CASE(restore_passes_the_codecs_error_on) {
  prior found;
  found.state = "not binary";
  auto got = restore<plan>(found, codec::binary{});
  BOOST_TEST_REQUIRE(!got);
  BOOST_TEST(matches(got.error(), ec::state_unreadable));
  BOOST_TEST(detail_of(got.error())
             == decode<plan>(found.state, codec::binary{}).error().detail);
  found.state = encode(some_plan(), codec::binary{}).operator*();
  BOOST_TEST((*restore<plan>(found, codec::binary{}) == some_plan()));
  found.state.reset();
  BOOST_TEST((*restore<plan>(found, codec::binary{}) == plan{}));
}

BOOST_AUTO_TEST_SUITE_END()
