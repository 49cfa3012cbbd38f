// SPDX-License-Identifier: Apache-2.0
// What can go wrong with a server.
#include "support/postgres.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace leasehold;
using namespace leasehold::backend;
using namespace std::chrono_literals;

namespace {

using std::chrono::steady_clock;

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

struct fixture {
  fixture() {
    side.run("drop table if exists faulty; drop sequence if exists faulty_seq");
    auto applied = source().apply_schema();
    BOOST_TEST_REQUIRE(applied.detail == "");
  }

  store_source source(duration timeout = 5s, std::string url = {}) {
    store_options options;
    options.table = "faulty";
    options.timeout = timeout;
    return test::postgres_source(url.empty() ? test::postgres_url() : url,
                                 options);
  }

  outcome run(store& st, const operation& op) {
    auto result = st.execute({&op, 1}).front();
    if (!result.detail.empty())
      BOOST_TEST_MESSAGE(result.detail);
    return result;
  }

  outcome acquire(store& st, const std::string& work_id,
                  const std::string& holder = "ann") {
    return run(st, operation::acquire(work_id, holder, 60s));
  }

  token take(store& st, const std::string& work_id) {
    auto granted = acquire(st, work_id);
    BOOST_TEST_REQUIRE((granted.code == ec::none));
    return internal::token_access::make(work_id, "ann", granted.number, 0);
  }

  void terminate_sessions() {
    side.run("select count(pg_terminate_backend(pid, 5000)) from "
             "pg_stat_activity where application_name = 'leasehold'");
  }

  /// Waits until the server has a session in this state.
  void await_session(const std::string& condition) {
    auto end = steady_clock::now() + 10s;
    while (side.run("select count(*) from pg_stat_activity where "
                    "application_name = 'leasehold' and "
                    + condition)
           == "0")
      BOOST_TEST_REQUIRE((steady_clock::now() < end));
  }

  /// A session reports what it did to its tables when it ends.
  void await_no_session() {
    auto end = steady_clock::now() + 10s;
    while (side.run("select count(*) from pg_stat_activity where "
                    "application_name = 'leasehold'")
           != "0")
      BOOST_TEST_REQUIRE((steady_clock::now() < end));
    side.run("select pg_stat_clear_snapshot()");
  }

  /// The URL with another user and password.
  static std::string url_as(const std::string& user_info) {
    auto url = test::postgres_url();
    auto begin = url.find("//") + 2;
    return url.replace(begin, url.find('@') - begin, user_info);
  }

  test::side_connection side;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(postgres_fault_suite, fixture)

BOOST_AUTO_TEST_CASE(a_session_that_was_cut_while_idle_heals_unnoticed) {
  auto st = source().open();
  auto tok = take(*st, "job");
  terminate_sessions();
  BOOST_TEST((run(*st, operation::renew(tok, 60s)).code == ec::none));
  terminate_sessions();
  BOOST_TEST(st->list({}).rows.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_session_that_is_cut_in_mid_call_leaves_it_unknown) {
  auto st = source().open();
  auto tok = take(*st, "job");
  side.run("begin");
  side.run("select 1 from faulty for update");
  outcome result;
  std::thread caller{[&] { result = run(*st, operation::renew(tok, 60s)); }};
  await_session("wait_event_type = 'Lock'");
  terminate_sessions();
  caller.join();
  side.run("rollback");
  BOOST_TEST((result.code == ec::unknown_outcome));
  BOOST_TEST((run(*st, operation::renew(tok, 60s)).code == ec::none));
}

// contract 239
BOOST_AUTO_TEST_CASE(a_lock_that_stays_is_reported_within_the_limit) {
  auto st = source(500ms).open();
  auto tok = take(*st, "job");
  side.run("begin");
  side.run("select 1 from faulty for update");
  auto start = steady_clock::now();
  auto result = run(*st, operation::renew(tok, 60s));
  auto took = steady_clock::now() - start;
  // Nothing that reads waits for it.
  BOOST_TEST((acquire(*st, "job", "bob").code == ec::lease_held));
  side.run("rollback");
  BOOST_TEST((result.code == ec::unavailable));
  BOOST_TEST(has(result.detail, "55P03"));
  BOOST_TEST((took < 700ms));
  BOOST_TEST((run(*st, operation::renew(tok, 60s)).code == ec::none));
}

BOOST_AUTO_TEST_CASE(a_frozen_server_costs_no_call_more_than_its_limit) {
  constexpr auto limit = 500ms;
  constexpr auto slack = 200ms;
  auto st = source(limit).open();
  auto fresh = source(limit).open();
  auto tok = take(*st, "job");
  BOOST_TEST((run(*st, operation::renew(tok, 60s)).code == ec::none));
  std::vector<std::pair<ec, steady_clock::duration>> calls;
  auto timed = [&](auto call) {
    auto start = steady_clock::now();
    auto code = call();
    calls.emplace_back(code, steady_clock::now() - start);
  };
  test::server("freeze");
  timed([&] { return run(*st, operation::renew(tok, 60s)).code; });
  timed([&] { return run(*st, operation::renew(tok, 60s)).code; });
  timed([&] { return acquire(*fresh, "next").code; });
  timed([&] { return fresh->list({}).code; });
  timed([&] { return fresh->sweep({1s, true}).code; });
  {
    // A session can be closed, too.
    auto start = steady_clock::now();
    fresh.reset();
    BOOST_TEST((steady_clock::now() - start < limit + slack));
  }
  test::server("thaw");
  for (auto& [code, took] : calls) {
    BOOST_TEST((code == ec::unavailable || code == ec::unknown_outcome),
               to_string(code));
    BOOST_TEST((took < limit + slack), took.count());
  }
  BOOST_TEST((calls.front().first == ec::unknown_outcome));
  auto end = steady_clock::now() + 10s;
  while (run(*st, operation::renew(tok, 60s)).code != ec::none)
    BOOST_TEST_REQUIRE((steady_clock::now() < end));
}

BOOST_AUTO_TEST_CASE(a_large_state_to_a_frozen_server_is_surely_not_stored) {
  auto st = source(500ms).open();
  auto tok = take(*st, "job");
  std::string large(16u * 1024 * 1024, 'x');
  test::server("freeze");
  auto start = steady_clock::now();
  auto result = run(*st, operation::checkpoint(tok, 60s, large));
  auto took = steady_clock::now() - start;
  test::server("thaw");
  BOOST_TEST((result.code == ec::unavailable));
  BOOST_TEST((took < 700ms));
}

BOOST_AUTO_TEST_CASE(a_server_that_was_away_is_found_again) {
  auto st = source(2s).open();
  auto tok = take(*st, "job");
  test::server("stop");
  auto result = run(*st, operation::renew(tok, 60s));
  BOOST_TEST((result.code == ec::unavailable));
  BOOST_TEST(has(result.detail, "refused"));
  // Until the pause after a failed attempt is over, calls end at once.
  auto start = steady_clock::now();
  for (int i = 0; i < 20; ++i)
    BOOST_TEST((run(*st, operation::renew(tok, 60s)).code == ec::unavailable));
  BOOST_TEST((steady_clock::now() - start < 1s));
  test::server("start");
  auto end = steady_clock::now() + 10s;
  while (run(*st, operation::renew(tok, 60s)).code != ec::none)
    BOOST_TEST_REQUIRE((steady_clock::now() < end));
  side = test::side_connection{};
}

// contract 240
BOOST_AUTO_TEST_CASE(a_missing_table_says_what_to_do) {
  side.run("drop table faulty");
  auto src = source();
  auto st = src.open();
  auto result = acquire(*st, "job");
  BOOST_TEST((result.code == ec::store_failed));
  BOOST_TEST((result.also == ec::schema_missing));
  BOOST_TEST(has(result.detail, "42P01"));
  BOOST_TEST(has(result.detail, "leasehold schema apply -s postgresql://"));
  BOOST_TEST(has(result.detail, "lease:***@"));
  BOOST_TEST((st->list({}).also == ec::schema_missing));
  BOOST_TEST((st->sweep({}).also == ec::schema_missing));
  BOOST_TEST(src.check_schema().detail == "table faulty does not exist");
  BOOST_TEST(src.apply_schema().ok());
  BOOST_TEST((acquire(*st, "job").code == ec::none));
}

BOOST_AUTO_TEST_CASE(a_table_of_another_kind_is_left_alone) {
  side.run("drop table faulty; create table faulty (a int);"
           "alter table faulty owner to lease");
  auto src = source();
  for (auto& found : {src.apply_schema(), src.check_schema()}) {
    BOOST_TEST((found.code == ec::store_failed));
    BOOST_TEST((found.also == ec::not_a_store));
    BOOST_TEST(has(found.detail, "is not leasehold's; rename it"));
  }
  auto st = src.open();
  for (auto& also : {st->list({}).also, acquire(*st, "job").also})
    BOOST_TEST((also == ec::not_a_store));
  BOOST_TEST(has(st->list({}).detail, "`table:`"));
  side.run("drop table faulty");
}

// contract 21
BOOST_AUTO_TEST_CASE(a_missing_permission_is_named) {
  side.run("alter table faulty owner to admin; revoke all on faulty from lease;"
           "grant select on faulty to lease");
  auto st = source().open();
  auto result = acquire(*st, "job");
  BOOST_TEST((result.code == ec::store_failed));
  BOOST_TEST((result.also == ec::none));
  BOOST_TEST(has(result.detail, "permission denied for table faulty"));
  BOOST_TEST(has(result.detail, "42501"));
  BOOST_TEST(has(source().check_schema().detail, "this user may not insert"));
  side.run("alter table faulty owner to lease");
  BOOST_TEST((acquire(*st, "job").code == ec::none));
}

BOOST_AUTO_TEST_CASE(a_server_that_takes_no_writes_is_unavailable) {
  side.run("alter role lease set default_transaction_read_only = on");
  auto st = source().open();
  auto result = acquire(*st, "job");
  side.run("alter role lease reset default_transaction_read_only");
  BOOST_TEST((result.code == ec::unavailable));
  BOOST_TEST(has(result.detail, "25006"));
  // As after a failover, another connection does better.
  BOOST_TEST((acquire(*st, "job").code == ec::none));
}

BOOST_AUTO_TEST_CASE(a_table_that_changed_its_shape_is_prepared_anew) {
  auto st = source().open();
  auto tok = take(*st, "job");
  BOOST_TEST((run(*st, operation::renew(tok, 60s)).code == ec::none));
  side.run("alter table faulty add column more text; "
           "alter table faulty alter column holder_id type varchar(600)");
  BOOST_TEST((run(*st, operation::renew(tok, 60s)).code == ec::none));
  BOOST_TEST((acquire(*st, "job", "bob").code == ec::lease_held));
  BOOST_TEST(st->list({}).rows.size() == 1u);
}

BOOST_AUTO_TEST_CASE(one_bad_row_does_not_spoil_its_batch) {
  side.run("alter table faulty add check (work_id <> 'poison')");
  auto st = source().open();
  std::vector<operation> ops;
  for (auto id : {"a", "poison", "z"})
    ops.push_back(operation::acquire(id, "ann", 60s));
  auto results = st->execute(ops);
  BOOST_TEST((results[0].code == ec::none));
  BOOST_TEST((results[1].code == ec::store_failed));
  BOOST_TEST(!has(results[1].detail, "poison"));
  BOOST_TEST((results[2].code == ec::none));
}

BOOST_AUTO_TEST_CASE(one_id_that_cannot_be_stored_does_not_spoil_a_look) {
  side.run("drop database if exists latin");
  auto url = test::postgres_url();
  auto user = url.substr(url.find("//") + 2);
  user = user.substr(0, user.find_first_of(":@"));
  side.run("create database latin owner \"" + user
           + "\" encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' "
             "template template0");
  auto begin = url.find('/', url.find("//") + 2) + 1;
  auto end = std::min(url.find('?', begin), url.size());
  auto latin = source(5s, url.replace(begin, end - begin, "latin"));
  BOOST_TEST_REQUIRE(latin.apply_schema().detail == "");
  std::vector<operation> ops;
  for (int i = 0; i < 300; ++i)
    ops.push_back(operation::acquire("job-" + std::to_string(i), "ann", 60s));
  ops[7].work_id = "job-\xe2\x82\xac"; // A Euro sign.
  auto st = latin.open();
  auto results = st->execute(ops);
  for (std::size_t i = 0; i < ops.size(); ++i)
    BOOST_TEST((results[i].code == (i == 7 ? ec::invalid_argument : ec::none)));
  st.reset();
  await_no_session();
  side.run("drop database latin with (force)");
}

// contract 234
BOOST_AUTO_TEST_CASE(the_exit_columns_refuse_unknown_words) {
  take(*source().open(), "job");
  BOOST_CHECK_THROW(side.run("update faulty set exit_mode = 'none'"),
                    std::runtime_error);
  BOOST_CHECK_THROW(side.run("update faulty set prev_exit_mode = 'x'"),
                    std::runtime_error);
}

// contract 220
BOOST_AUTO_TEST_CASE(an_exit_that_nobody_knows_reads_as_expired) {
  auto st = source().open();
  auto tok = take(*st, "job");
  side.run("alter table faulty drop constraint faulty_prev_exit_mode_check; "
           "update faulty set prev_exit_mode = 'vanished'");
  BOOST_TEST(
    (run(*st, operation::read(tok)).previous.exit == exit_mode::expired));
}

// contract 78
BOOST_AUTO_TEST_CASE(a_refused_acquire_takes_no_transaction_id) {
  auto st = source().open();
  take(*st, "job");
  auto before = side.run("select pg_snapshot_xmax(pg_current_snapshot())");
  for (int i = 0; i < 50; ++i)
    BOOST_TEST((acquire(*st, "job", "bob").code == ec::lease_held));
  BOOST_TEST(side.run("select pg_snapshot_xmax(pg_current_snapshot())")
             == before);
}

BOOST_AUTO_TEST_CASE(thousands_that_wait_in_vain_cost_one_look) {
  auto st = source().open();
  std::vector<operation> ops;
  for (int i = 0; i < 5000; ++i)
    ops.push_back(operation::acquire("job-" + std::to_string(i), "ann", 60s));
  for (auto& got : st->execute(ops))
    BOOST_TEST_REQUIRE((got.code == ec::none));
  for (auto& op : ops)
    op.holder_id = "bob";
  auto waiting = source().open();
  waiting->execute(ops); // Its statements are prepared now.
  auto counter = [&] {
    side.run("select pg_stat_clear_snapshot()");
    return side.run("select pg_snapshot_xmax(pg_current_snapshot())");
  };
  auto before = counter();
  for (auto& got : waiting->execute(ops)) {
    BOOST_TEST_REQUIRE((got.code == ec::lease_held));
    BOOST_TEST_REQUIRE(got.holder_id == "ann");
  }
  BOOST_TEST(counter() == before);
  // One statement for all of them: its text is the last that this session ran,
  // and it is not the one that claims.
  BOOST_TEST(has(side.run("select query from pg_stat_activity where "
                          "application_name = 'leasehold' "
                          "order by query_start desc limit 1"),
                 "is distinct from i.request"));
}

// contract 238
BOOST_AUTO_TEST_CASE(the_isolation_of_the_database_does_not_matter) {
  side.run("alter role lease set default_transaction_isolation = serializable");
  auto st = source().open();
  auto other = source().open();
  std::atomic<int> won = 0;
  std::atomic<int> bad = 0;
  auto race = [&](store& mine, const char* holder) {
    for (int i = 0; i < 200; ++i) {
      auto op = operation::acquire("job" + std::to_string(i), holder, 60s);
      auto code = mine.execute({&op, 1})[0].code;
      won += code == ec::none ? 1 : 0;
      bad += code == ec::none || code == ec::lease_held ? 0 : 1;
    }
  };
  std::thread thread{[&] { race(*other, "bob"); }};
  race(*st, "ann");
  thread.join();
  side.run("alter role lease reset default_transaction_isolation");
  BOOST_TEST(won == 200);
  BOOST_TEST(bad == 0);
}

BOOST_AUTO_TEST_CASE(batches_in_any_order_do_not_deadlock) {
  constexpr int sessions = 3;
  auto before = side.run("select deadlocks from pg_stat_database where "
                         "datname = 'lease'");
  std::vector<token> tokens;
  {
    auto st = source().open();
    for (int i = 0; i < 100; ++i)
      tokens.push_back(take(*st, "job" + std::to_string(i)));
  }
  std::atomic<int> bad = 0;
  std::vector<std::thread> threads;
  for (unsigned s = 0; s < sessions; ++s)
    threads.emplace_back([&, s] {
      auto st = source().open();
      for (unsigned round = 0; round < 40; ++round) {
        std::vector<operation> ops;
        for (unsigned i = 0; i < 100; ++i) {
          auto& tok = tokens[(i * (s == 0 ? 1 : 33) + round) % 100];
          ops.push_back(i % 2 == 0 ? operation::renew(tok, 60s)
                                   : operation::checkpoint(tok, 60s, "x"));
        }
        for (auto& result : st->execute(ops))
          bad += result.ok() ? 0 : 1;
      }
    });
  for (auto& thread : threads)
    thread.join();
  BOOST_TEST(bad == 0);
  side.run("select pg_stat_clear_snapshot()");
  BOOST_TEST(side.run("select deadlocks from pg_stat_database where "
                      "datname = 'lease'")
             == before);
}

BOOST_AUTO_TEST_CASE(misleading_statistics_do_not_spoil_the_plan) {
  constexpr std::size_t count = 5000;
  auto st = source().open();
  side.run("insert into faulty (work_id, holder_id, expires_at) select "
           "'job' || i, 'ann', now() - interval '1 h' from "
           "generate_series(1, "
           + std::to_string(count)
           + ") i; analyze faulty; "
             "update faulty set expires_at = now() + interval '1 h'");
  std::vector<operation> ops;
  auto rows = st->list({}).rows;
  BOOST_TEST_REQUIRE(rows.size() == count);
  for (std::size_t i = 0; i < 1024; ++i)
    ops.push_back(operation::renew(
      internal::token_access::make(rows[i].work_id, "ann", rows[i].number, 0),
      7200s));
  auto start = steady_clock::now();
  auto results = st->execute(ops);
  BOOST_TEST((steady_clock::now() - start < 1s));
  BOOST_TEST(std::all_of(results.begin(), results.end(),
                         [](auto& x) { return x.ok(); }));
}

BOOST_AUTO_TEST_CASE(a_plan_made_on_an_empty_table_is_good_on_a_full_one) {
  constexpr auto scans
    = "select seq_scan from pg_stat_user_tables where relname = 'faulty'";
  await_no_session();
  auto before = side.run(scans);
  auto st = source().open();
  auto use = [&](const std::string& work_id) {
    auto tok = take(*st, work_id);
    BOOST_TEST(run(*st, operation::renew(tok, 60s)).ok());
    BOOST_TEST(run(*st, operation::checkpoint(tok, 60s, "x")).ok());
    BOOST_TEST(
      run(*st, operation::checkpoint(tok, 60s, std::string(5000, 'x'))).ok());
    BOOST_TEST(run(*st, operation::read(tok)).ok());
    BOOST_TEST((acquire(*st, work_id, "bob").code == ec::lease_held));
    BOOST_TEST(run(*st, operation::release(tok, exit_mode::finished)).ok());
    BOOST_TEST(run(*st, operation::forget(tok)).ok());
  };
  use("first");
  side.run("insert into faulty (work_id, holder_id, expires_at) select "
           "'job' || i, 'ann', now() from generate_series(1, 5000) i");
  use("second");
  list_query query;
  query.prefix = "job4";
  query.limit = 10;
  BOOST_TEST(st->list(query).rows.size() == 10u);
  st.reset();
  await_no_session();
  BOOST_TEST(side.run(scans) == before);
}

BOOST_AUTO_TEST_CASE(renewals_stay_out_of_the_index) {
  auto st = source().open();
  std::vector<token> tokens;
  for (int i = 0; i < 100; ++i)
    tokens.push_back(take(*st, "job" + std::to_string(i)));
  std::vector<operation> ops;
  for (auto& tok : tokens)
    ops.push_back(operation::renew(tok, 60s));
  for (int i = 0; i < 20; ++i)
    BOOST_TEST(st->execute(ops).back().ok());
  st.reset();
  await_no_session();
  BOOST_TEST(side.run("select n_tup_hot_upd >= 0.9 * n_tup_upd from "
                      "pg_stat_user_tables where relname = 'faulty'")
             == "t");
}

// contract 233
BOOST_AUTO_TEST_CASE(many_may_apply_the_schema_at_once) {
  side.run("drop table faulty; drop sequence faulty_seq");
  std::vector<failure> results(20);
  std::vector<std::thread> threads;
  for (auto& result : results)
    threads.emplace_back([&, this] { result = source().apply_schema(); });
  for (auto& thread : threads)
    thread.join();
  for (auto& result : results)
    BOOST_TEST(result.detail == "");
}

BOOST_AUTO_TEST_CASE(a_check_names_each_difference) {
  side.run("alter table faulty drop column request_id, "
           "alter column holder_id type varchar(20), "
           "alter column fencing_token drop default");
  auto found = source().check_schema();
  BOOST_TEST((found.also == ec::schema_missing));
  BOOST_TEST(found.detail
             == "table faulty: column holder_id is character varying instead "
                "of text\n"
                "table faulty: column fencing_token does not default to a "
                "sequence\n"
                "table faulty: column request_id is missing");
}

// contract 76
BOOST_AUTO_TEST_CASE(a_sequence_behind_the_rows_is_found_and_repaired) {
  auto src = source();
  auto st = src.open();
  auto highest = acquire(*st, "a").number;
  for (auto id : {"b", "c"})
    highest = acquire(*st, id).number;
  for (auto last : {"1, false", "1", "3, false"}) {
    side.run(std::string{"select setval('faulty_seq', "} + last + ")");
    auto found = src.check_schema();
    BOOST_TEST((found.code == ec::store_failed));
    BOOST_TEST((found.also == ec::schema_missing));
    BOOST_TEST(has(found.detail, "sequence faulty_seq is behind the numbers of "
                                 "table faulty, "
                                   + std::to_string(highest) + " is taken"));
    BOOST_TEST(has(found.detail, "leasehold schema apply -s postgresql://"));
    BOOST_TEST(src.apply_schema().detail == "");
    BOOST_TEST(src.check_schema().detail == "");
    auto next = acquire(*st, std::string{"next "} + last).number;
    BOOST_TEST(next == highest + 1);
    // The copy keeps the first three rows, so that each round starts alike.
    side.run("delete from faulty where work_id like 'next%'");
  }
  side.run("select setval('faulty_seq', 3)");
  BOOST_TEST(src.check_schema().detail == "");
}

BOOST_AUTO_TEST_CASE(a_sequence_that_cannot_be_trusted_is_refused_with_advice) {
  auto src = source();
  auto has_problem = [&](const std::string& damage, const std::string& cure,
                         std::string_view text) {
    side.run(damage);
    auto found = src.check_schema();
    BOOST_TEST((found.code == ec::store_failed));
    BOOST_TEST(has(found.detail, text), found.detail);
    BOOST_TEST((src.apply_schema().code == ec::store_failed));
    side.run(cure);
    BOOST_TEST(src.check_schema().detail == "");
  };
  has_problem("alter sequence faulty_seq cache 20",
              "alter sequence faulty_seq cache 1",
              "run `alter sequence faulty_seq cache 1`");
  has_problem("alter sequence faulty_seq cycle",
              "alter sequence faulty_seq increment by 1 no cycle",
              "run `alter sequence faulty_seq increment by 1 no cycle`");
  has_problem("alter table faulty set unlogged",
              "alter table faulty set logged",
              "run `alter table faulty set logged`");
  has_problem("alter sequence faulty_seq owner to admin",
              "alter sequence faulty_seq owner to lease",
              "this user may not use it");
}

BOOST_AUTO_TEST_CASE(the_clock_of_the_server_can_be_compared_with_ours) {
  auto st = source().open();
  auto exact = system_store_clock();
  auto found = compare_clocks(*st, exact);
  BOOST_TEST((found.code == ec::none));
  BOOST_TEST((std::chrono::abs(found.ahead) <= found.tolerance));
  auto slow = compare_clocks(*st, [&] { return exact() - 3'600'000'000; });
  BOOST_TEST((std::chrono::abs(slow.ahead - 1h) <= slow.tolerance));
  side.run("drop table faulty");
  BOOST_TEST((compare_clocks(*st, exact).code == ec::store_failed));
}

// contract 232
BOOST_AUTO_TEST_CASE(a_table_of_another_program_can_be_shared) {
  side.run(R"(
    drop schema if exists ops cascade; create schema ops authorization lease;
    set role lease;
    create sequence ops.worklease_fencing_seq;
    create table ops.worklease_leases (
      work_id text primary key, holder_id text not null,
      fencing_token bigint not null
        default nextval('ops.worklease_fencing_seq'),
      expires_at timestamptz not null, checkpoint bytea, exit_mode text,
      prev_exit_mode text not null default 'none', prev_holder_id text,
      acquired_at timestamptz not null default now(),
      updated_at timestamptz not null default now());
    insert into ops.worklease_leases (work_id, holder_id, expires_at,
      checkpoint) values ('job', 'gopher', now() - interval '1 s', '');
    reset role)");
  auto src = source(5s, test::postgres_url() + "?table=ops.worklease_leases");
  BOOST_TEST((src.check_schema().also == ec::schema_missing));
  BOOST_TEST(src.apply_schema().detail == "");
  auto st = src.open();
  auto granted = acquire(*st, "job");
  BOOST_TEST((granted.code == ec::none));
  BOOST_TEST(
    (granted.previous == prior{std::nullopt, exit_mode::expired, "gopher"}));
  // Both draw their numbers from one sequence.
  BOOST_TEST(side.run("select nextval('ops.worklease_fencing_seq')")
             > std::to_string(granted.number));
  side.run("drop schema ops cascade");
}

BOOST_AUTO_TEST_CASE(passwords_of_any_kind_work_and_are_never_shown) {
  auto encode = [](std::string_view text) {
    std::string result;
    for (auto x : text) {
      auto c = static_cast<unsigned char>(x);
      constexpr auto hex = "0123456789ABCDEF";
      result += '%';
      result += hex[c >> 4];
      result += hex[c & 15];
    }
    return result;
  };
  side.run("drop user if exists \"o d'd@:/user\"");
  side.run("create user \"o d'd@:/user\" in role lease");
  for (std::string_view password :
       {"two words", " lead", "it's", "say \"so\"", "a@b:c/d#e?f%g&h=i",
        "back\\slash", "pässwörd\xF0\x9F\x94\x91", "$1 {} ;--", "="}) {
    auto conn = std::string{};
    for (auto c : password)
      conn += c == '\'' ? std::string{"''"} : std::string{c};
    side.run("set standard_conforming_strings = on; alter user "
             "\"o d'd@:/user\" password '"
             + conn + "'");
    auto url = url_as(encode("o d'd@:/user") + ":" + encode(password));
    auto src = source(5s, url);
    BOOST_TEST(src.check_schema().detail == "", password);
    BOOST_TEST(!has(src.display(), encode(password)));
    BOOST_TEST(has(src.display(), ":***@"));
  }
  auto wrong = source(5s, url_as("lease:wrong%20one")).open();
  auto result = acquire(*wrong, "job");
  BOOST_TEST((result.code == ec::unavailable));
  BOOST_TEST(has(result.detail, "password authentication failed"));
  BOOST_TEST(!has(result.detail, "wrong one"));
}

BOOST_AUTO_TEST_CASE(a_unix_socket_works) {
  auto folder = side.run("show unix_socket_directories");
  auto port = side.run("show port");
  auto src = source(5s, "postgresql://lease:lease@/lease?host=" + folder
                          + "&port=" + port);
  BOOST_TEST(src.check_schema().detail == "");
}

BOOST_AUTO_TEST_CASE(neither_ids_nor_states_reach_a_message) {
  side.run("alter table faulty add check (octet_length(checkpoint) < 10)");
  auto st = source().open();
  auto tok = take(*st, "confidential");
  for (auto size : {100u, 10'000u}) {
    auto result
      = run(*st, operation::checkpoint(tok, 60s, std::string(size, 's')));
    BOOST_TEST((result.code == ec::store_failed));
    BOOST_TEST(!has(result.detail, "confidential"));
    BOOST_TEST(!has(result.detail, "sss"));
    BOOST_TEST(!has(result.detail, "737373"));
  }
}

BOOST_AUTO_TEST_CASE(a_state_over_the_limit_is_refused) {
  auto st = source().open();
  auto tok = take(*st, "job");
  auto result = run(
    *st, operation::checkpoint(tok, 60s, std::string(17u * 1024 * 1024, 'x')));
  BOOST_TEST((result.code == ec::state_too_large));
}

BOOST_AUTO_TEST_SUITE_END()
