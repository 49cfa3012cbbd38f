// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/backend/store.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace leasehold {

// For BOOST_TEST.
inline std::ostream& operator<<(std::ostream& out, ec code) {
  return out << to_string(code);
}

inline std::ostream& operator<<(std::ostream& out, exit_mode mode) {
  return out << to_string(mode);
}

} // namespace leasehold

namespace leasehold::conformance {

using backend::op_kind;
using backend::operation;
using backend::outcome;
using backend::store;
using backend::store_ptr;

using namespace std::chrono_literals;

using state_bytes = std::optional<std::string>;

/// What the cases of backend_suite.hpp are written in. A subject is one store,
/// empty at construction:
///
///     struct subject {
///       static constexpr bool exact_time;  // time moves by pass() alone
///       store_ptr open();                  // another session on the store
///       void pass(duration x);             // moves the store's time forward
///     };
template <class Subject>
class backend_fixture {
public:
  static constexpr bool exact_time = Subject::exact_time;

  backend_fixture() : st(world.open()) {
    // nop
  }

  void pass(duration x) {
    world.pass(x);
  }

  outcome run(store& on, const operation& op) {
    auto results = on.execute({&op, 1});
    BOOST_TEST_REQUIRE(results.size() == 1u);
    if (!results[0].detail.empty())
      BOOST_TEST_MESSAGE(results[0].detail);
    return std::move(results[0]);
  }

  outcome run(const operation& op) {
    return run(*st, op);
  }

  ec code(const operation& op) {
    return run(op).code;
  }

  outcome acquire(const std::string& work_id, const std::string& holder = "ann",
                  duration ttl = 10s, std::int64_t request = 0) {
    return run(operation::acquire(work_id, holder, ttl, request));
  }

  static token token_of(const std::string& work_id, const std::string& holder,
                        const outcome& granted) {
    return internal::token_access::make(work_id, holder, granted.number,
                                        granted.expires_us);
  }

  /// Acquires and must get it.
  token take(const std::string& work_id, const std::string& holder = "ann",
             duration ttl = 10s) {
    auto granted = acquire(work_id, holder, ttl);
    BOOST_TEST_REQUIRE(granted.code == ec::none);
    return token_of(work_id, holder, granted);
  }

  ec checkpoint(const token& tok, state_bytes state, duration ttl = 10s) {
    return code(operation::checkpoint(tok, ttl, std::move(state)));
  }

  ec renew(const token& tok, duration ttl = 10s) {
    return code(operation::renew(tok, ttl));
  }

  ec release(const token& tok, exit_mode exit = exit_mode::finished) {
    return code(operation::release(tok, exit));
  }

  ec forget(const token& tok) {
    return code(operation::forget(tok));
  }

  outcome read(const token& tok) {
    return run(operation::read(tok));
  }

  prior prior_of(const token& tok) {
    auto result = read(tok);
    BOOST_TEST_REQUIRE(result.code == ec::none);
    return std::move(result.previous);
  }

  /// The row of a work ID, with its state; nothing if there is none.
  std::optional<backend::row> row_of(const std::string& work_id) {
    backend::list_query query;
    query.work_id = work_id;
    query.with_state = true;
    auto found = st->list(query);
    BOOST_TEST_REQUIRE(found.code == ec::none);
    if (found.rows.empty())
      return std::nullopt;
    return std::move(found.rows.front());
  }

  std::vector<std::string> ids(const backend::list_query& query) {
    auto found = st->list(query);
    BOOST_TEST_REQUIRE(found.code == ec::none);
    std::vector<std::string> result;
    for (auto& row : found.rows)
      result.push_back(row.work_id);
    return result;
  }

  std::uint64_t sweep(duration retention, bool include_expired = false) {
    auto result = st->sweep({retention, include_expired});
    BOOST_TEST_REQUIRE(result.code == ec::none);
    return result.deleted;
  }

  /// A token that differs from `tok` in its number alone.
  static token with_number(const token& tok, std::int64_t number) {
    return internal::token_access::make(tok.work_id(), tok.holder_id(), number,
                                        tok.expires_us());
  }

  static token with_holder(const token& tok, const std::string& holder) {
    return internal::token_access::make(tok.work_id(), holder, tok.number(),
                                        tok.expires_us());
  }

  Subject world;
  store_ptr st;
};

} // namespace leasehold::conformance
