// SPDX-License-Identifier: Apache-2.0
#include "leasehold/messages.hpp"

#include "support/world.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

using namespace leasehold;

namespace {

using world = leasehold::test::world<caf::id_block::leasehold>;

/// The members of an aggregate that has exactly N of them: who adds one has to
/// say so here, and gives the samples below a value for it.
template <std::size_t N, class T>
auto members(const T& x) {
  if constexpr (N == 0) {
    static_assert(std::is_empty_v<T>);
    return std::tuple<>{};
  } else if constexpr (N == 1) {
    auto& [a] = x;
    return std::tie(a);
  } else if constexpr (N == 2) {
    auto& [a, b] = x;
    return std::tie(a, b);
  } else if constexpr (N == 3) {
    auto& [a, b, c] = x;
    return std::tie(a, b, c);
  } else if constexpr (N == 4) {
    auto& [a, b, c, d] = x;
    return std::tie(a, b, c, d);
  } else if constexpr (N == 5) {
    auto& [a, b, c, d, e] = x;
    return std::tie(a, b, c, d, e);
  } else if constexpr (N == 6) {
    auto& [a, b, c, d, e, f] = x;
    return std::tie(a, b, c, d, e, f);
  } else {
    static_assert(N == 7);
    auto& [a, b, c, d, e, f, g] = x;
    return std::tie(a, b, c, d, e, f, g);
  }
}

/// Reading gives back what was written, and no part of it is taken for all.
template <class T, class Equal>
void check_wire(const T& x, Equal equal) {
  std::string bytes;
  BOOST_TEST_REQUIRE(to_binary(x, bytes));
  T copy{};
  BOOST_TEST_REQUIRE(from_binary(bytes, copy));
  BOOST_TEST(equal(copy, x));
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    // A copy of its own, so that a sanitizer sees reads beyond the end.
    std::vector<char> part(bytes.begin(),
                           bytes.begin() + static_cast<std::ptrdiff_t>(n));
    T ignored{};
    BOOST_TEST(!from_binary(std::string_view{part.data(), n}, ignored),
               n << " of " << bytes.size() << " bytes");
  }
  bytes += '\0';
  BOOST_TEST(!from_binary(bytes, copy));
}

template <class T>
void check_wire(const T& x) {
  check_wire(x, [](const T& a, const T& b) { return a == b; });
}

template <std::size_t N, class T>
void check_wire(const T& x) {
  check_wire(
    x, [](const T& a, const T& b) { return members<N>(a) == members<N>(b); });
}

token some_token() {
  return internal::token_access::make("job \xc3\xa4", "node-a", 4711,
                                      1'800'000'000'000'000);
}

prior some_prior() {
  return {std::string{"a\0b", 3}, exit_mode::abandoned, "node-b"};
}

backend::operation some_operation() {
  auto result = backend::operation::checkpoint(some_token(), duration{30},
                                               std::string{"\0\xff", 2}, 9);
  result.request = -1;
  result.exit = exit_mode::retired;
  result.repeat = true;
  return result;
}

backend::outcome some_outcome() {
  backend::outcome result;
  result.code = ec::store_failed;
  result.also = ec::schema_missing;
  result.number = 12;
  result.now_us = 13;
  result.expires_us = -14;
  result.previous = some_prior();
  result.holder_id = "node-c";
  result.detail = "no table";
  return result;
}

backend::row some_row() {
  backend::row result;
  result.work_id = "w";
  result.holder_id = "node-a";
  result.number = 1;
  result.expires_us = 2;
  result.acquired_us = 3;
  result.updated_us = 4;
  result.exit = exit_mode::finished;
  result.previous_exit = exit_mode::expired;
  result.previous_holder_id = "node-b";
  result.state_bytes = 5;
  result.state = "state";
  return result;
}

lease_event some_lease_event() {
  lease_event result;
  result.kind = lease_event_kind::read_checkpoint;
  result.work_id = "w";
  result.tok = some_token();
  result.code = ec::fenced;
  result.also = ec::lease_expired;
  result.detail = "gone";
  result.took = duration{1};
  result.state_bytes = 2;
  result.attempt = 3;
  result.window_left = duration{4};
  result.silent_for = duration{5};
  result.exit = exit_mode::retired;
  result.prior_holder = "node-b";
  result.operation = "Renew";
  return result;
}

slot_event some_slot_event() {
  slot_event result;
  result.kind = slot_event_kind::stuck;
  result.work_id = "w";
  result.tok = some_token();
  result.code = ec::work_failed;
  result.detail = "no disk";
  result.span = duration{-1};
  result.exit = exit_mode::expired;
  result.prior_holder = "node-b";
  result.state_bytes = 6;
  return result;
}

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

// contract 88
BOOST_AUTO_TEST_CASE(a_stores_code_is_the_code_that_callers_match) {
  for (unsigned raw = 1; raw <= static_cast<unsigned>(last_ec); ++raw) {
    backend::outcome got;
    BOOST_TEST_REQUIRE(from_integer(static_cast<std::uint8_t>(raw), got.code));
    BOOST_TEST((code_of(to_error(got)) == got.code));
    BOOST_TEST((to_error(got) == got.code));
  }
}

BOOST_AUTO_TEST_CASE(what_crosses_the_network_arrives_whole_or_not_at_all) {
  check_wire(some_token());
  check_wire(token{});
  check_wire(some_prior());
  check_wire(prior{});
  check_wire(some_operation());
  check_wire(backend::operation{});
  check_wire(some_outcome());
  check_wire(backend::outcome{});
  check_wire(some_row());
  check_wire(backend::row{});
  check_wire(backend::list_query{"pre", "w", "after", 7, true});
  check_wire(backend::listing{
    ec::unavailable, ec::unknown_outcome, 1, {some_row(), {}}, "x"});
  check_wire(backend::listing{});
  check_wire(backend::sweep_query{duration{-1}, true});
  check_wire(backend::sweep_result{ec::cancelled, ec::retire, 1ull << 63, "x"});
  check_wire<2>(store_request{{some_operation(), {}}, -1});
  check_wire<2>(store_request{});
  check_wire<1>(store_reply{{some_outcome(), {}}});
  check_wire<1>(store_reply{});
  check_wire<2>(list_request{{"pre", "w", "after", 7, true}, 8});
  check_wire<2>(sweep_request{{duration{9}, true}, 10});
  check_wire(some_lease_event());
  check_wire(lease_event{});
  check_wire(some_slot_event());
  check_wire(slot_event{});
  check_wire(leader_event{leader_event_kind::relinquished, some_token(),
                          ec::fenced, "x", exit_mode::retired, "node-b"});
  check_wire(sweep_event{duration{1}, true, 2, ec::store_failed,
                         ec::schema_missing, "no table", duration{3}});
}

BOOST_AUTO_TEST_CASE(what_stays_in_the_process_could_be_read_back_too) {
  auto tok = some_token();
  check_wire<0>(get_token{});
  check_wire<7>(acquire_request{"w", true, duration{1}, duration{2},
                                duration{3}, false, 1ull << 63});
  check_wire<2>(cancel_acquire{3, true});
  check_wire<1>(keep_request{tok});
  check_wire<1>(stop_request{tok});
  check_wire<1>(read_request{tok});
  check_wire<2>(checkpoint_request{tok, "state"});
  check_wire<2>(checkpoint_request{tok, ""});
  check_wire<2>(checkpoint_request{tok, std::nullopt});
  check_wire<1>(renew_request{tok});
  check_wire<2>(release_request{tok, exit_mode::retired});
  check_wire<1>(forget_request{tok});
  check_wire<1>(confirmation{-4});
  check_wire<4>(drop{5, ec::fenced, ec::lease_expired, "x"});
  check_wire<3>(work_result{ec::work_failed, "x", ""});
  check_wire<1>(slot_stop{stop_mode::now});
  check_wire<5>(run_work{"w", true, duration{1}, duration{2}, 3});
  check_wire<2>(stop_runs{4, stop_mode::now});
  check_wire<2>(run_result{exit_mode::retired, 5});
  check_wire<5>(elect{"w", true, duration{1}, duration{2}, 3});
  check_wire<2>(resign{4, stop_mode::drain});
  check_wire<1>(add_work{{"v", "w"}});
  check_wire<1>(added_work{2});
  check_wire<2>(remove_work{{"v", "w"}, stop_mode::now});
  check_wire<1>(removed_work{2});
  check_wire<0>(run_pool{});
  check_wire<2>(pool_result{6, 7});
  check_wire<1>(stop_pool{stop_mode::drain});
  check_wire<0>(get_active_slots{});
  check_wire<1>(active_slots{{"v", "", "w"}});
  check_wire<0>(sweep_now{});
  check_wire<1>(swept{8});
  check_wire<0>(internal::flush{});
  check_wire<0>(internal::wake{});
  check_wire<2>(internal::lost{9, "w"});
  check_wire<0>(internal::slot_go{});
  check_wire<1>(internal::slot_wants{10});
  check_wire<3>(internal::slot_is{11, internal::slot_phase::dead, true});
  check_wire<2>(internal::slot_sleeps{12, duration{13}});
  check_wire<0>(internal::slot_wake{});
  check_wire<6>(internal::run_report{tok, ec::fenced, ec::lease_expired, "x",
                                     exit_mode::retired, ec::fenced});
}

BOOST_AUTO_TEST_CASE(values_that_an_enum_does_not_have_are_refused) {
  std::string bytes;
  BOOST_TEST_REQUIRE(to_binary(
    release_request{some_token(), static_cast<exit_mode>(99)}, bytes));
  release_request request;
  BOOST_TEST(!from_binary(bytes, request));
  bytes.clear();
  backend::outcome outcome;
  outcome.code = static_cast<ec>(200);
  BOOST_TEST_REQUIRE(to_binary(outcome, bytes));
  BOOST_TEST(!from_binary(bytes, outcome));
}

BOOST_AUTO_TEST_SUITE_END()
