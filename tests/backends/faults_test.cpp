// SPDX-License-Identifier: Apache-2.0
// What a store tells, and what it did, when the network or the server fails in
// the middle of a call.
#include "support/postgres.hpp"
#include "support/tcp_proxy.hpp"

#include <signal.h>

#include <chrono>
#include <functional>
#include <future>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

using namespace leasehold;
using namespace leasehold::backend;
using namespace std::chrono_literals;

namespace leasehold {

// For BOOST_TEST.
inline std::ostream& operator<<(std::ostream& out, ec code) {
  return out << to_string(code);
}

} // namespace leasehold

namespace {

using std::chrono::steady_clock;
using test::flow;

// What a call may take beyond its limit.
constexpr auto slack = 200ms;

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

struct fixture {
  fixture() {
    side.run("drop table if exists faults; drop sequence if exists faults_seq");
    BOOST_TEST_REQUIRE(source().apply_schema().detail == "");
  }

  static std::uint16_t server_port() {
    auto url = test::postgres_url();
    return static_cast<std::uint16_t>(
      std::stoi(url.substr(url.rfind(':') + 1)));
  }

  /// Through the proxy.
  store_source source(duration timeout = 5s) {
    return source_on(proxy.port(), timeout);
  }

  static store_source source_on(std::uint16_t port, duration timeout = 5s) {
    store_options options;
    options.table = "faults";
    options.timeout = timeout;
    auto url = test::postgres_url();
    auto begin = url.rfind(':') + 1;
    url.replace(begin, url.rfind('/') - begin, std::to_string(port));
    return test::postgres_source(url, options);
  }

  /// Runs it and checks that it ended within the limit of the store.
  outcome run(store& st, const operation& op, duration limit = 5s) {
    auto start = steady_clock::now();
    auto result = st.execute({&op, 1}).front();
    auto took = steady_clock::now() - start;
    BOOST_TEST((took < limit + slack), to_string(op.kind)
                                         << " took " << took.count() << " ns");
    if (!result.detail.empty())
      BOOST_TEST_MESSAGE(to_string(op.kind) << ": " << result.detail);
    return result;
  }

  static token token_of(const operation& op, const outcome& granted) {
    return internal::token_access::make(op.work_id, op.holder_id,
                                        granted.number, 0);
  }

  token take(const std::string& work_id) {
    auto op = operation::acquire(work_id, "ann", 60s, 1);
    auto granted = run(*direct, op);
    BOOST_TEST_REQUIRE(granted.code == ec::none);
    return token_of(op, granted);
  }

  std::string column(const std::string& name, const std::string& work_id) {
    return side.run("select coalesce(" + name + "::text, '-') from faults "
                    + "where work_id = '" + work_id + "'");
  }

  /// All that an operation could have changed.
  std::string row(const std::string& work_id) {
    return side.run("select l::text from faults l where work_id = '" + work_id
                    + "'");
  }

  /// A session on which a call is one request: made, all prepared, and its
  /// server told the whole limit again, of which connecting took a part.
  store_ptr warm(const token& tok, duration limit) {
    auto result = source(limit).open();
    for (int i = 0; i < 2; ++i)
      BOOST_TEST_REQUIRE(run(*result, operation::renew(tok, 60s), limit).code
                         == ec::none);
    return result;
  }

  /// Repeats a renewal until the store answers; returns how long that took.
  duration heals_within(store& st, const token& tok, duration limit) {
    auto start = steady_clock::now();
    while (st.execute(std::vector{operation::renew(tok, 60s)})[0].code
           != ec::none)
      BOOST_TEST_REQUIRE((steady_clock::now() - start < limit));
    return std::chrono::duration_cast<duration>(steady_clock::now() - start);
  }

  void await(const std::string& condition) {
    // Not by `side`: what a transaction sees of other sessions stands still.
    auto end = steady_clock::now() + 10s;
    while (watch.run("select count(*) > 0 from pg_stat_activity where "
                     "application_name = 'leasehold' and "
                     + condition)
           != "t")
      BOOST_TEST_REQUIRE((steady_clock::now() < end));
  }

  /// One operation of each kind that writes, on a work ID of its own, with
  /// the statement that it runs and what shows that it was applied.
  struct sample {
    std::string statement;
    operation op;
    std::function<bool()> applied;
    /// What the same call answers after the first one was applied.
    ec repeated;
  };

  std::vector<sample> samples(const std::string& prefix) {
    auto id = [&](const char* name) { return prefix + name; };
    std::vector<sample> result;
    auto fresh = id("acquire");
    result.push_back({"lh_acquire", operation::acquire(fresh, "ann", 60s, 4711),
                      [this, fresh] { return row(fresh) != ""; }, ec::none});
    auto tok = take(id("checkpoint"));
    result.push_back(
      {"lh_checkpoint", operation::checkpoint(tok, 60s, "state", 1),
       [this, w = tok.work_id()] { return column("checkpoint", w) != "-"; },
       ec::none});
    tok = take(id("large"));
    result.push_back(
      {"lh_large_checkpoint",
       operation::checkpoint(tok, 60s, std::string(100'000, 's'), 1),
       [this, w = tok.work_id()] { return column("checkpoint", w) != "-"; },
       ec::none});
    tok = take(id("renew"));
    result.push_back({"lh_renew", operation::renew(tok, 3600s),
                      [this, w = tok.work_id()] {
                        return side.run("select expires_at > now() + interval "
                                        "'30 min' from faults where work_id = '"
                                        + w + "'")
                               == "t";
                      },
                      ec::none});
    tok = take(id("release"));
    result.push_back(
      {"lh_release", operation::release(tok, exit_mode::finished),
       [this, w = tok.work_id()] { return column("exit_mode", w) != "-"; },
       ec::none});
    tok = take(id("forget"));
    result.push_back({"lh_forget", operation::forget(tok),
                      [this, w = tok.work_id()] { return row(w) == ""; },
                      // The row is gone, and that is what it says.
                      ec::fenced});
    return result;
  }

  /// What a caller sends who did not learn how its call went.
  static operation repeat_of(operation op) {
    op.repeat = op.kind == op_kind::release;
    return op;
  }

  test::side_connection side;
  test::side_connection watch;
  test::tcp_proxy proxy{server_port()};
  store_ptr direct = source_on(server_port()).open();
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(postgres_lost_reply_suite, fixture)

BOOST_AUTO_TEST_CASE(a_lost_reply_is_unknown_and_the_repeat_tells_the_truth) {
  auto st = source().open();
  for (auto& x : samples("job/")) {
    BOOST_TEST_CONTEXT(x.statement) {
      proxy.lose_reply(x.statement);
      BOOST_TEST(run(*st, x.op).code == ec::unknown_outcome);
      BOOST_TEST(x.applied());
      auto before = row(x.op.work_id);
      auto again = run(*st, repeat_of(x.op));
      BOOST_TEST(again.code == x.repeated);
      BOOST_TEST(x.applied());
      if (x.op.kind == op_kind::acquire) {
        BOOST_TEST(std::to_string(again.number)
                   == column("fencing_token", x.op.work_id));
        BOOST_TEST(row(x.op.work_id) == before);
      }
      if (x.op.kind == op_kind::release)
        BOOST_TEST(row(x.op.work_id) == before);
    }
  }
  BOOST_TEST(proxy.lost() == 6u);
}

BOOST_AUTO_TEST_CASE(a_lost_request_is_never_applied) {
  auto st = source().open();
  for (auto& x : samples("job/")) {
    BOOST_TEST_CONTEXT(x.statement) {
      proxy.lose_request(x.statement);
      BOOST_TEST(run(*st, x.op).code == ec::unknown_outcome);
      BOOST_TEST(!x.applied());
      BOOST_TEST(run(*st, repeat_of(x.op)).code == ec::none);
      BOOST_TEST(x.applied());
    }
  }
  BOOST_TEST(proxy.lost() == 6u);
}

BOOST_AUTO_TEST_CASE(what_is_lost_while_it_is_prepared_was_surely_not_applied) {
  for (auto& x : samples("job/")) {
    BOOST_TEST_CONTEXT(x.statement) {
      auto st = source().open();
      proxy.lose_reply("parse " + x.statement);
      BOOST_TEST(run(*st, x.op).code == ec::unavailable);
      BOOST_TEST(!x.applied());
      BOOST_TEST(run(*st, x.op).code == ec::none);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_reply_that_never_comes_is_unknown_at_the_limit) {
  constexpr auto limit = 300ms;
  for (auto& x : samples("job/")) {
    BOOST_TEST_CONTEXT(x.statement) {
      auto st = source(limit).open();
      BOOST_TEST_REQUIRE(st->list({}).code == ec::none);
      // Prepared, so that the statement itself meets the fault.
      run(*st, x.op.kind == op_kind::acquire
                 ? operation::acquire("other/" + x.statement, "ann", 60s)
                 : [&] {
                     auto op = x.op;
                     op.number += 1'000'000;
                     return op;
                   }(),
          limit);
      proxy.swallow(flow::to_client);
      BOOST_TEST(run(*st, x.op, limit).code == ec::unknown_outcome);
      proxy.heal();
      auto end = steady_clock::now() + 5s;
      while (!x.applied())
        BOOST_TEST_REQUIRE((steady_clock::now() < end));
      BOOST_TEST(run(*source().open(), repeat_of(x.op)).code == x.repeated);
    }
  }
}

// Each byte of a conversation, counted from a live session on.
BOOST_AUTO_TEST_CASE(a_cut_at_any_byte_leaves_an_honest_outcome) {
  auto tok = take("job");
  auto cuts = 0;
  auto surely_not = 0;
  auto unknown = 0;
  std::int64_t sequence = 0;
  for (auto direction : {flow::to_server, flow::to_client})
    for (std::size_t bytes = 1;; bytes += bytes < 16 ? 1 : 41) {
      auto st = source().open();
      BOOST_TEST_REQUIRE(st->list({}).code == ec::none);
      proxy.cut_after(direction, bytes);
      auto state = std::to_string(++sequence);
      auto op = operation::checkpoint(tok, 60s, state, sequence);
      auto result = run(*st, op);
      proxy.heal();
      auto applied
        = side.run("select convert_from(checkpoint, 'UTF8') from faults")
          == state;
      if (result.code == ec::none) {
        BOOST_TEST(applied);
        break;
      }
      ++cuts;
      if (result.code == ec::unavailable) {
        ++surely_not;
        BOOST_TEST(!applied, "byte " << bytes);
      } else {
        ++unknown;
        BOOST_TEST(result.code == ec::unknown_outcome);
      }
      BOOST_TEST(run(*st, op).code == ec::none);
    }
  BOOST_TEST(cuts > 40);
  BOOST_TEST(surely_not > 0);
  BOOST_TEST(unknown > 0);
}

BOOST_AUTO_TEST_CASE(a_repeat_that_meets_its_own_first_call_gets_its_grant) {
  auto op = operation::acquire("job", "ann", 60s, 4711);
  auto st = source(1s).open();
  side.run("begin; insert into faults (work_id, holder_id, fencing_token, "
           "expires_at) values ('job', 'nobody', 0, now())");
  outcome first;
  std::thread caller{[&] { first = run(*st, op, 1s); }};
  await("wait_event_type = 'Lock'");
  proxy.cut();
  caller.join();
  BOOST_TEST(first.code == ec::unknown_outcome);
  auto second
    = std::async(std::launch::async, [&] { return run(*direct, op); });
  side.run("rollback");
  auto granted = second.get();
  BOOST_TEST(granted.code == ec::none);
  BOOST_TEST(side.run("select count(*) from faults") == "1");
  BOOST_TEST(std::to_string(granted.number) == column("fencing_token", "job"));
  BOOST_TEST(run(*direct, operation::renew(token_of(op, granted), 60s)).code
             == ec::none);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(postgres_outage_suite, fixture)

BOOST_AUTO_TEST_CASE(a_black_hole_costs_no_call_more_than_its_limit) {
  constexpr auto limit = 300ms;
  auto tok = take("job");
  auto st = warm(tok, limit);
  auto fresh = source(limit).open();
  proxy.swallow();
  auto before = row("job");
  BOOST_TEST(run(*st, operation::renew(tok, 3600s), limit).code
             == ec::unknown_outcome);
  // There is no session any more, so nothing is sent.
  BOOST_TEST(run(*st, operation::renew(tok, 3600s), limit).code
             == ec::unavailable);
  BOOST_TEST(run(*fresh, operation::acquire("next", "ann", 60s), limit).code
             == ec::unavailable);
  auto timed = [&](auto call) {
    auto start = steady_clock::now();
    auto code = call().code;
    BOOST_TEST((steady_clock::now() - start < limit + slack));
    BOOST_TEST(code == ec::unavailable);
  };
  timed([&] { return fresh->list({}); });
  timed([&] { return fresh->sweep({1s, true}); });
  {
    auto start = steady_clock::now();
    fresh.reset();
    BOOST_TEST((steady_clock::now() - start < limit + slack));
  }
  BOOST_TEST(row("job") == before);
  BOOST_TEST(row("next") == "");
  proxy.heal();
  // An attempt to connect that fell into the hole takes two seconds to fail.
  auto took = heals_within(*st, tok, 4s);
  BOOST_TEST_MESSAGE("healed within " << took.count() / 1000 << " ms");
}

BOOST_AUTO_TEST_CASE(a_black_hole_for_requests_or_replies_alone_is_the_same) {
  constexpr auto limit = 300ms;
  auto tok = take("job");
  for (auto direction : {flow::to_server, flow::to_client}) {
    auto st = warm(tok, limit);
    proxy.swallow(direction);
    BOOST_TEST(run(*st, operation::renew(tok, 60s), limit).code
               == ec::unknown_outcome);
    BOOST_TEST(run(*st, operation::renew(tok, 60s), limit).code
               == ec::unavailable);
    proxy.heal();
    heals_within(*st, tok, 4s);
  }
}

BOOST_AUTO_TEST_CASE(refused_connections_end_at_once_and_heal_after_a_pause) {
  auto st = source(2s).open();
  auto tok = take("job");
  BOOST_TEST(run(*st, operation::renew(tok, 60s)).code == ec::none);
  proxy.refuse();
  proxy.cut();
  auto start = steady_clock::now();
  for (int i = 0; i < 20; ++i)
    BOOST_TEST(run(*st, operation::renew(tok, 60s)).code == ec::unavailable);
  BOOST_TEST((steady_clock::now() - start < 1s));
  proxy.heal();
  heals_within(*st, tok, 2s);
}

BOOST_AUTO_TEST_CASE(a_session_that_came_too_late_and_died_goes_unnoticed) {
  constexpr auto limit = 300ms;
  auto st = source(limit).open();
  auto tok = take("job");
  direct.reset();
  proxy.delay(flow::to_client, 200ms);
  BOOST_TEST(run(*st, operation::renew(tok, 60s), limit).code
             == ec::unavailable);
  // Nobody waits for the session any more, but it comes, or is about to.
  await("state = 'idle'");
  proxy.heal();
  watch.run("select pg_terminate_backend(pid, 5000) from pg_stat_activity "
            "where application_name = 'leasehold'");
  BOOST_TEST(run(*st, operation::renew(tok, 60s), limit).code == ec::none);
}

BOOST_AUTO_TEST_CASE(a_slow_network_is_no_fault) {
  auto st = source(3s).open();
  auto tok = take("job");
  proxy.delay(flow::to_server, 50ms);
  proxy.delay(flow::to_client, 50ms);
  BOOST_TEST(run(*st, operation::renew(tok, 60s), 3s).code == ec::none);
  BOOST_TEST(run(*st, operation::checkpoint(tok, 60s, "x"), 3s).code
             == ec::none);
}

BOOST_AUTO_TEST_CASE(a_server_that_crashed_keeps_what_it_confirmed) {
  auto st = source(3s).open();
  auto tok = take("job");
  BOOST_TEST(run(*st, operation::checkpoint(tok, 60s, "half"), 3s).code
             == ec::none);
  test::server("stop immediate");
  BOOST_TEST(run(*st, operation::renew(tok, 60s), 3s).code == ec::unavailable);
  test::server("start");
  side = test::side_connection{};
  watch = test::side_connection{};
  heals_within(*st, tok, 5s);
  auto found = run(*st, operation::read(tok), 3s);
  BOOST_TEST(found.previous.state.value_or("") == "half");
  auto next = run(*st, operation::acquire("next", "ann", 60s), 3s);
  BOOST_TEST(next.number > tok.number());
}

// A crash in the time that the default of a role or database leaves commits in
// memory.
BOOST_AUTO_TEST_CASE(commits_are_durable_whatever_the_role_says) {
  side.run("alter role lease set synchronous_commit = off");
  {
    auto st = source().open();
    BOOST_TEST(run(*st, operation::acquire("a", "ann", 60s)).code == ec::none);
    test::server("stop immediate");
  }
  test::server("start");
  side = test::side_connection{};
  watch = test::side_connection{};
  side.run("alter role lease reset synchronous_commit");
  BOOST_TEST(row("a") != "");
  direct = source_on(server_port()).open();
}

// The server commits, and tells nobody until a standby that is away has it.
BOOST_AUTO_TEST_CASE(a_commit_that_waits_for_a_standby_is_unknown) {
  constexpr auto limit = 500ms;
  auto standby = [&](const std::string& name) {
    watch.run("alter system set synchronous_standby_names = '" + name + "'");
    watch.run("select pg_reload_conf()");
  };
  watch.run("set synchronous_commit = local");
  auto st = source(limit).open();
  standby("nowhere");
  // Until the server has taken that in, calls end well.
  operation op;
  outcome first;
  for (int i = 0; first.code == ec::none; ++i) {
    BOOST_TEST_REQUIRE(i < 10'000);
    op = operation::acquire("job" + std::to_string(i), "ann", 60s, 4711);
    first = run(*st, op, limit);
  }
  auto second = run(*st, op, limit);
  // Who does not ask for it does not wait; only `off` is raised.
  watch.run("alter role lease set synchronous_commit = local");
  auto other = source(limit).open();
  auto settled = run(*other, operation::acquire("local", "bob", 60s), limit);
  watch.run("alter role lease reset synchronous_commit");
  standby("");
  BOOST_TEST(first.code == ec::unknown_outcome);
  BOOST_TEST(
    (second.code == ec::unavailable || second.code == ec::unknown_outcome));
  BOOST_TEST(settled.code == ec::none);
  auto end = steady_clock::now() + 10s;
  while (row(op.work_id) == "")
    BOOST_TEST_REQUIRE((steady_clock::now() < end));
  auto granted = run(*source().open(), op);
  BOOST_TEST(granted.code == ec::none);
  BOOST_TEST(std::to_string(granted.number)
             == column("fencing_token", op.work_id));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(postgres_conflict_suite, fixture)

BOOST_AUTO_TEST_CASE(a_lock_that_stays_is_surely_not_applied) {
  constexpr auto limit = 300ms;
  auto all = samples("job/");
  auto st = source(limit).open();
  auto lapsed = take("job/lapsed");
  side.run("update faults set expires_at = now() - interval '1 s' where "
           "work_id = 'job/lapsed'");
  all.front().op = operation::acquire("job/lapsed", "bob", 60s, 7);
  side.run("begin; select 1 from faults for update");
  std::vector<std::string> before;
  for (auto& x : all) {
    before.push_back(row(x.op.work_id));
    auto result = run(*st, x.op, limit);
    BOOST_TEST_CONTEXT(x.statement) {
      BOOST_TEST(result.code == ec::unavailable);
      BOOST_TEST(has(result.detail, "55P03"));
    }
  }
  side.run("rollback");
  for (std::size_t i = 0; i < all.size(); ++i)
    BOOST_TEST(row(all[i].op.work_id) == before[i]);
  for (auto& x : all)
    BOOST_TEST(run(*st, x.op, limit).code == ec::none);
}

// contract 239: the limit is that of the call, however many statements it has.
BOOST_AUTO_TEST_CASE(a_lock_that_the_second_statement_meets_is_no_secret) {
  constexpr auto limit = 1s;
  auto st = source(limit).open();
  auto first = take("a");
  auto second = take("b");
  std::vector<operation> ops{operation::renew(first, 60s),
                             operation::checkpoint(second, 60s, "late")};
  BOOST_TEST(st->execute(ops)[1].code == ec::none);
  ops[1].state = "later";
  side.run("begin; select 1 from faults for update");
  auto start = steady_clock::now();
  auto results = st->execute(ops);
  BOOST_TEST((steady_clock::now() - start < limit + slack));
  BOOST_TEST(results[0].code == ec::unavailable);
  BOOST_TEST(results[1].code == ec::unavailable);
  side.run("rollback");
  // Nobody is left who could still do it.
  BOOST_TEST(side.run("select count(*) from pg_stat_activity where "
                      "application_name = 'leasehold' and state = 'active'")
             == "0");
  BOOST_TEST(run(*st, operation::read(second), limit).previous.state.value()
             == "late");
  // The next call has its whole time again.
  side.run("begin; select 1 from faults for update");
  start = steady_clock::now();
  BOOST_TEST(run(*st, ops[0], limit).code == ec::unavailable);
  BOOST_TEST((steady_clock::now() - start > limit / 2));
  side.run("rollback");
}

BOOST_AUTO_TEST_CASE(the_loser_of_a_deadlock_runs_again) {
  auto a = take("a");
  auto b = take("b");
  side.run("set deadlock_timeout = '10s'; begin; "
           "select 1 from faults where work_id = 'b' for update");
  std::vector<operation> ops{operation::renew(a, 3600s),
                             operation::renew(b, 3600s)};
  auto deadlocks
    = "select deadlocks from pg_stat_database where datname = 'lease'";
  auto before = side.run(deadlocks);
  auto call
    = std::async(std::launch::async, [&] { return direct->execute(ops); });
  await("wait_event_type = 'Lock'");
  // Now each waits for the other; the store's session looks first.
  side.run("select 1 from faults where work_id = 'a' for update");
  side.run("commit; reset deadlock_timeout");
  for (auto& result : call.get())
    BOOST_TEST(result.code == ec::none);
  auto end = steady_clock::now() + 5s;
  while (watch.run(deadlocks) == before)
    BOOST_TEST_REQUIRE((steady_clock::now() < end));
}

// contract 238: here a session that runs in the stricter level in spite of its
// own wish, as behind a pooler that shares sessions between statements.
BOOST_AUTO_TEST_CASE(a_serialization_failure_runs_again) {
  proxy.replace("isolation = 'read committed'", "isolation = 'serializable'  ");
  auto st = source().open();
  auto all = samples("job/");
  for (auto& x : all) {
    if (x.op.kind == op_kind::acquire)
      continue;
    BOOST_TEST_CONTEXT(x.statement) {
      side.run("begin; update faults set updated_at = now() where work_id = '"
               + x.op.work_id + "'");
      auto call
        = std::async(std::launch::async, [&] { return run(*st, x.op); });
      await("wait_event_type = 'Lock'");
      side.run("commit");
      BOOST_TEST(call.get().code == ec::none);
      BOOST_TEST(x.applied());
    }
  }
  // The holder renews while another one tries to take what has lapsed.
  auto tok = take("job/lapsed");
  side.run("update faults set expires_at = now() - interval '1 s' where "
           "work_id = 'job/lapsed'");
  side.run("begin; update faults set expires_at = now() + interval '1 h' "
           "where work_id = 'job/lapsed'");
  auto call = std::async(std::launch::async, [&] {
    return run(*st, operation::acquire("job/lapsed", "bob", 60s));
  });
  await("wait_event_type = 'Lock'");
  side.run("commit");
  auto refused = call.get();
  BOOST_TEST(refused.code == ec::lease_held);
  BOOST_TEST(refused.holder_id == "ann");
  BOOST_TEST(run(*st, operation::renew(tok, 60s)).code == ec::none);
}

BOOST_AUTO_TEST_CASE(a_server_that_turns_read_only_is_unavailable_for_writes) {
  auto all = samples("job/");
  side.run("alter role lease set default_transaction_read_only = on");
  auto st = source().open();
  std::vector<std::string> before;
  for (auto& x : all) {
    before.push_back(row(x.op.work_id));
    auto result = run(*st, x.op);
    BOOST_TEST_CONTEXT(x.statement) {
      BOOST_TEST(result.code == ec::unavailable);
      BOOST_TEST(has(result.detail, "25006"));
    }
  }
  BOOST_TEST(st->list({}).code == ec::none);
  BOOST_TEST(st->sweep({1s, true}).code == ec::unavailable);
  side.run("alter role lease reset default_transaction_read_only");
  for (std::size_t i = 0; i < all.size(); ++i) {
    BOOST_TEST(row(all[i].op.work_id) == before[i]);
    BOOST_TEST(run(*st, all[i].op).code == ec::none);
  }
}

BOOST_AUTO_TEST_CASE(a_session_cut_in_mid_call_is_unknown_for_each_kind) {
  auto all = samples("job/");
  auto st = source().open();
  for (auto& x : all) {
    auto lock = x.op.kind == op_kind::acquire
                  ? "insert into faults (work_id, holder_id, fencing_token, "
                    "expires_at) values ('"
                      + x.op.work_id + "', 'nobody', 0, now())"
                  : "select 1 from faults where work_id = '" + x.op.work_id
                      + "' for update";
    side.run("begin; " + lock);
    auto call = std::async(std::launch::async, [&] { return run(*st, x.op); });
    await("wait_event_type = 'Lock'");
    watch.run("select pg_terminate_backend(pid, 5000) from pg_stat_activity "
              "where application_name = 'leasehold' and wait_event_type = "
              "'Lock'");
    BOOST_TEST_CONTEXT(x.statement) {
      BOOST_TEST(call.get().code == ec::unknown_outcome);
      side.run("rollback");
      BOOST_TEST(!x.applied());
      BOOST_TEST(run(*st, repeat_of(x.op)).code == ec::none);
      BOOST_TEST(x.applied());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
