// SPDX-License-Identifier: Apache-2.0
// What can go wrong with a server.
#include "support/mysql.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <set>
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
    side.run("drop table if exists faulty, faulty_seq");
    auto applied = source().apply_schema();
    BOOST_TEST_REQUIRE(applied.detail == "");
  }

  store_source source(duration timeout = 5s, std::string url = {}) {
    store_options options;
    options.table = "faulty";
    options.timeout = timeout;
    return test::mysql_source(url.empty() ? test::mysql_url() : url, options);
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

  static token token_of(const std::string& work_id, const outcome& granted) {
    return internal::token_access::make(work_id, "ann", granted.number, 0);
  }

  token take(store& st, const std::string& work_id) {
    auto granted = acquire(st, work_id);
    BOOST_TEST_REQUIRE((granted.code == ec::none));
    return token_of(work_id, granted);
  }

  /// Waits until a query's answer is this one.
  void await(const std::string& sql, const std::string& wanted) {
    auto end = steady_clock::now() + 10s;
    for (auto got = side.run(sql); got != wanted; got = side.run(sql))
      BOOST_TEST_REQUIRE((steady_clock::now() < end), sql << ": " << got);
  }

  static std::string status(const std::string& name) {
    return "select variable_value from information_schema.global_status where "
           "variable_name = '"
           + name + "'";
  }

  void await_lock_wait() {
    await(status("Innodb_row_lock_current_waits"), "1");
  }

  /// The server renews its list of transactions only when nobody has asked for
  /// it in the last 100 ms.
  bool has_open_transaction() {
    std::this_thread::sleep_for(150ms);
    return side.run("select count(*) from information_schema.innodb_trx")
           != "0";
  }

  void kill_sessions() {
    std::string kills;
    kills = side.run("select coalesce(group_concat(concat('kill ', id) "
                     "separator ';'), 'do 0') from "
                     "information_schema.processlist where user = 'lease'");
    side.run(kills);
    await("select count(*) from information_schema.processlist where "
          "user = 'lease'",
          "0");
  }

  std::string deadlocks() {
    return side.run(status("Innodb_deadlocks"));
  }

  std::string last_number() {
    return side.run("select last_number from faulty_seq");
  }

  /// The URL with another user and password.
  static std::string url_as(const std::string& user_info) {
    auto url = test::mysql_url();
    auto begin = url.find("//") + 2;
    return url.replace(begin, url.find('@') - begin, user_info);
  }

  test::side_connection side;
};

/// Sets a default of the server for as long as this lives.
class server_default {
public:
  server_default(test::side_connection& side, const std::string& name,
                 const std::string& value)
    : side_(side), name_(name) {
    before_ = side_.run("select concat(\"'\", @@global." + name + ", \"'\")");
    // Numbers and switches are taken as words.
    if (before_.find_first_not_of("'0123456789") == std::string::npos)
      before_ = before_.substr(1, before_.size() - 2);
    if (before_.empty())
      before_ = "''";
    side_.run("set global " + name + " = " + value);
  }

  ~server_default() {
    side_.run("set global " + name_ + " = " + before_);
  }

private:
  test::side_connection& side_;
  std::string name_;
  std::string before_;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(mysql_fault_suite, fixture)

BOOST_AUTO_TEST_CASE(a_session_that_was_killed_while_idle_heals_unnoticed) {
  auto st = source().open();
  auto tok = take(*st, "job");
  kill_sessions();
  BOOST_TEST((run(*st, operation::renew(tok, 60s)).code == ec::none));
  kill_sessions();
  BOOST_TEST(st->list({}).rows.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_session_that_is_killed_in_mid_call_heals) {
  auto st = source().open();
  auto tok = take(*st, "job");
  side.run("start transaction; select 1 from faulty for update");
  outcome result;
  std::thread caller{[&] { result = run(*st, operation::renew(tok, 60s)); }};
  test::side_connection watch;
  std::swap(side, watch);
  await_lock_wait();
  kill_sessions();
  std::swap(side, watch);
  caller.join();
  side.run("rollback");
  // Whether the server says so before it hangs up is up to the server.
  BOOST_TEST(
    (result.code == ec::unknown_outcome || result.code == ec::unavailable));
  BOOST_TEST((run(*st, operation::renew(tok, 60s)).code == ec::none));
}

// contract 76
BOOST_AUTO_TEST_CASE(what_was_cut_can_be_repeated_until_it_is_answered) {
  constexpr int count = 100;
  std::atomic<bool> done = false;
  std::atomic<int> answers = 0;
  // After every second answer, one packet is cut wherever it happens to be.
  std::thread killer{[&] {
    test::side_connection cutter;
    for (int next = 1; !done;) {
      if (answers < next)
        continue;
      auto kill = cutter.run(
        "select concat('kill ', min(id)) from information_schema.processlist "
        "where user = 'lease' and command = 'Query'");
      if (kill.empty())
        continue;
      // It may have gone by itself.
      cutter.run("begin not atomic declare continue handler for 1094 do 0; "
                 + kill + "; end");
      next = answers + 2;
    }
  }};
  auto st = source(2s).open();
  int unknown = 0;
  auto answered = [&](const operation& op) {
    auto end = steady_clock::now() + 20s;
    for (;;) {
      auto result = st->execute({&op, 1}).front();
      if (result.code != ec::unknown_outcome
          && result.code != ec::unavailable) {
        ++answers;
        return result;
      }
      unknown += result.code == ec::unknown_outcome ? 1 : 0;
      if (steady_clock::now() > end)
        return result;
    }
  };
  std::vector<ec> codes;
  std::set<std::int64_t> numbers;
  for (int i = 0; i < count; ++i) {
    auto work_id = "job" + std::to_string(i);
    auto granted = answered(operation::acquire(work_id, "ann", 60s, i + 1));
    auto tok = token_of(work_id, granted);
    numbers.insert(granted.number);
    codes.push_back(granted.code);
    codes.push_back(answered(operation::checkpoint(tok, 60s, "x", 1)).code);
    codes.push_back(answered(operation::renew(tok, 60s)).code);
    codes.push_back(
      answered(operation::release(tok, exit_mode::finished, true)).code);
  }
  done = true;
  killer.join();
  BOOST_TEST_MESSAGE("replies lost: " << unknown);
  BOOST_TEST(unknown > 0);
  BOOST_TEST(std::all_of(codes.begin(), codes.end(),
                         [](auto x) { return x == ec::none; }));
  // No grant was made twice.
  BOOST_TEST(numbers.size() == count);
  BOOST_TEST(last_number() == std::to_string(count));
  BOOST_TEST(side.run("select count(*) from faulty where exit_mode = "
                      "'finished' and checkpoint = 'x'")
             == std::to_string(count));
}

// contract 239
BOOST_AUTO_TEST_CASE(a_lock_that_stays_is_reported_within_the_limit) {
  for (auto limit : {duration{500ms}, duration{3s}}) {
    auto st = source(limit).open();
    auto tok = take(*st, "job" + std::to_string(limit.count()));
    side.run("start transaction; select 1 from faulty for update");
    auto start = steady_clock::now();
    auto result = run(*st, operation::renew(tok, 60s));
    auto took = steady_clock::now() - start;
    // Nothing that reads waits for it.
    BOOST_TEST((acquire(*st, tok.work_id(), "bob").code == ec::lease_held));
    BOOST_TEST((st->list({}).code == ec::none));
    side.run("rollback");
    BOOST_TEST((result.code == ec::unavailable));
    BOOST_TEST(has(result.detail, limit < 1s ? "1969" : "1205"), result.detail);
    BOOST_TEST((took < limit));
    BOOST_TEST((run(*st, operation::renew(tok, 60s)).code == ec::none));
  }
}

BOOST_AUTO_TEST_CASE(a_lock_that_goes_in_time_is_not_reported) {
  auto st = source(5s).open();
  auto tok = take(*st, "job");
  side.run("start transaction; select 1 from faulty for update");
  auto lock_waits = status("Innodb_row_lock_waits");
  auto before = std::stol(side.run(lock_waits));
  outcome result;
  std::thread caller{[&] { result = run(*st, operation::renew(tok, 60s)); }};
  test::side_connection watch;
  std::swap(side, watch);
  // The first wait ends with 1205 after two seconds.
  await(lock_waits, std::to_string(before + 2));
  std::swap(side, watch);
  side.run("rollback");
  caller.join();
  BOOST_TEST((result.code == ec::none));
}

BOOST_AUTO_TEST_CASE(a_process_that_is_stopped_keeps_nobody_waiting) {
  auto st = source(2s).open();
  auto busy = ::fork();
  if (busy == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto mine = source(2s).open();
    for (;;) {
      std::vector<operation> ops;
      for (int i = 0; i < 20; ++i)
        ops.push_back(
          operation::acquire("busy" + std::to_string(i), "ann", -1s));
      mine->execute(ops);
    }
  }
  auto takeovers = [this] {
    return side.run("select coalesce(max(fencing_token), 0) from faulty where "
                    "work_id like 'busy%'");
  };
  auto bad = 0;
  for (int round = 0; round < 40; ++round) {
    // Stopped at any time while it takes leases over.
    auto before = takeovers();
    while (takeovers() == before)
      ;
    std::this_thread::sleep_for(std::chrono::microseconds{round * 97});
    ::kill(busy, SIGSTOP);
    bad += acquire(*st, "fresh" + std::to_string(round)).ok() ? 0 : 1;
    bad += acquire(*st, "busy7", "bob").code == ec::unavailable ? 1 : 0;
    side.run("update faulty set expires_at = 0 where holder_id = 'bob'");
    ::kill(busy, SIGCONT);
  }
  ::kill(busy, SIGKILL);
  ::waitpid(busy, nullptr, 0);
  BOOST_TEST(bad == 0);
}

BOOST_AUTO_TEST_CASE(a_deadlock_is_retried_within_the_call) {
  auto st = source().open();
  std::vector<operation> ops{operation::renew(take(*st, "a"), 60s),
                             operation::renew(take(*st, "b"), 60s)};
  auto before = deadlocks();
  // Of two transactions the server ends the one that has changed less.
  side.run("create table if not exists ballast (x int) engine = InnoDB;"
           "start transaction;"
           "insert into ballast select seq from seq_1_to_1000;"
           "update faulty set holder_id = holder_id where work_id = 'b';"
           "select 1 from faulty where work_id = 'b' for update");
  std::vector<outcome> results;
  std::thread caller{[&] { results = st->execute(ops); }};
  test::side_connection watch;
  std::swap(side, watch);
  await_lock_wait();
  std::swap(side, watch);
  side.run("select 1 from faulty where work_id = 'a' for update;"
           "rollback");
  caller.join();
  BOOST_TEST(deadlocks() != before);
  BOOST_TEST(std::all_of(results.begin(), results.end(),
                         [](auto& x) { return x.ok(); }));
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
  BOOST_TEST(has(result.detail, "Can't connect"));
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
  side.run("drop table faulty, faulty_seq");
  auto src = source();
  auto st = src.open();
  auto result = acquire(*st, "job");
  BOOST_TEST((result.code == ec::store_failed));
  BOOST_TEST((result.also == ec::schema_missing));
  BOOST_TEST(has(result.detail, "1146"));
  BOOST_TEST(has(result.detail, "leasehold schema apply -s mysql://"));
  BOOST_TEST(has(result.detail, "lease:***@"));
  BOOST_TEST((st->list({}).also == ec::schema_missing));
  BOOST_TEST((st->sweep({}).also == ec::schema_missing));
  BOOST_TEST(src.check_schema().detail
             == "table faulty does not exist\n"
                "table faulty_seq does not exist");
  BOOST_TEST(src.apply_schema().detail == "");
  BOOST_TEST((acquire(*st, "job").code == ec::none));
}

// contract 21
BOOST_AUTO_TEST_CASE(a_missing_permission_is_named) {
  side.run(
    "drop user if exists reader; create user reader identified by 'secret';"
    "grant select on lease.* to reader;"
    "grant update on lease.faulty to reader");
  auto src = source(5s, url_as("reader:secret"));
  auto st = src.open();
  auto result = acquire(*st, "job");
  BOOST_TEST((result.code == ec::store_failed));
  BOOST_TEST((result.also == ec::none));
  BOOST_TEST(has(result.detail, "INSERT command denied to user"));
  BOOST_TEST(has(result.detail, "1142"));
  BOOST_TEST(has(result.detail, "grant the user"));
  BOOST_TEST(src.check_schema().detail
             == "table faulty: this user may not insert\n"
                "table faulty: this user may not delete\n"
                "table faulty_seq: this user may not update");
  side.run("grant insert, update, delete on lease.* to reader");
  BOOST_TEST(src.check_schema().detail == "");
  st = src.open();
  BOOST_TEST((acquire(*st, "job").code == ec::none));
}

BOOST_AUTO_TEST_CASE(a_server_that_takes_no_writes_is_unavailable) {
  auto st = source().open();
  auto tok = take(*st, "job");
  {
    server_default read_only{side, "read_only", "1"};
    auto result = run(*st, operation::renew(tok, 60s));
    BOOST_TEST((result.code == ec::unavailable));
    BOOST_TEST(has(result.detail, "1290"));
    BOOST_TEST((acquire(*st, "job", "bob").code == ec::lease_held));
  }
  BOOST_TEST((run(*st, operation::renew(tok, 60s)).code == ec::none));
}

BOOST_AUTO_TEST_CASE(a_table_that_changed_its_shape_is_no_trouble) {
  auto st = source().open();
  auto tok = take(*st, "job");
  side.run("alter table faulty add column more text, "
           "modify column holder_id varbinary(600) not null");
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

BOOST_AUTO_TEST_CASE(no_error_leaves_a_transaction_open) {
  side.run("alter table faulty add check (work_id <> 'poison')");
  auto st = source().open();
  auto tok = take(*st, "job");
  BOOST_TEST(!acquire(*st, "poison").ok());
  BOOST_TEST(!has_open_transaction());
  side.run("alter table faulty add check (octet_length(checkpoint) < 10)");
  BOOST_TEST(
    !run(*st, operation::checkpoint(tok, 60s, "longer than it may")).ok());
  BOOST_TEST(!has_open_transaction());
  side.run("drop table faulty_seq");
  BOOST_TEST(!acquire(*st, "next").ok());
  BOOST_TEST(!has_open_transaction());
  // What was put there to be locked is gone with it.
  BOOST_TEST(side.run("select group_concat(work_id) from faulty") == "job");
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
  side.run("set check_constraint_checks = 0;"
           "update faulty set prev_exit_mode = 'vanished'");
  BOOST_TEST(
    (run(*st, operation::read(tok)).previous.exit == exit_mode::expired));
}

// contract 19
BOOST_AUTO_TEST_CASE(a_refused_acquire_takes_no_lock_and_no_number) {
  auto st = source(1s).open();
  take(*st, "job");
  auto before = last_number();
  side.run("start transaction; select 1 from faulty for update;"
           "select 1 from faulty_seq for update");
  for (int i = 0; i < 50; ++i)
    BOOST_TEST((acquire(*st, "job", "bob").code == ec::lease_held));
  side.run("rollback");
  BOOST_TEST(last_number() == before);
}

// contract 76, 81
BOOST_AUTO_TEST_CASE(a_claim_that_lost_its_race_draws_no_number) {
  constexpr int sessions = 6;
  constexpr int rounds = 20;
  std::vector<store_ptr> stores;
  for (int i = 0; i < sessions; ++i)
    stores.push_back(source().open());
  std::atomic<int> won = 0;
  std::vector<std::thread> threads;
  for (int s = 0; s < sessions; ++s)
    threads.emplace_back([&, s] {
      for (int i = 0; i < rounds; ++i) {
        auto op = operation::acquire("job" + std::to_string(i),
                                     "h" + std::to_string(s), 60s);
        won += stores[static_cast<std::size_t>(s)]->execute({&op, 1})[0].ok();
      }
    });
  for (auto& thread : threads)
    thread.join();
  BOOST_TEST(won == rounds);
  BOOST_TEST(last_number() == std::to_string(rounds));
}

// contract 76, 81
BOOST_AUTO_TEST_CASE(numbers_grow_in_the_order_in_which_they_are_granted) {
  constexpr int sessions = 4;
  std::vector<std::vector<std::int64_t>> numbers(sessions);
  std::vector<std::thread> threads;
  for (std::size_t s = 0; s < sessions; ++s)
    threads.emplace_back([&, s] {
      auto st = source().open();
      for (int i = 0; i < 50; ++i) {
        // Expired at once, so that each of them is a takeover.
        std::vector<operation> ops;
        for (int k = 0; k < 5; ++k)
          ops.push_back(operation::acquire("job" + std::to_string((i + k) % 7),
                                           "ann", -1s));
        std::set<std::int64_t> batch;
        for (auto& x : st->execute(ops))
          if (x.ok())
            batch.insert(x.number);
        numbers[s].insert(numbers[s].end(), batch.begin(), batch.end());
      }
    });
  for (auto& thread : threads)
    thread.join();
  std::set<std::int64_t> all;
  for (auto& mine : numbers) {
    BOOST_TEST(mine.size() > 100u);
    BOOST_TEST(std::is_sorted(mine.begin(), mine.end()));
    for (auto x : mine)
      BOOST_TEST(all.insert(x).second);
  }
}

// contract 76
BOOST_AUTO_TEST_CASE(a_counter_behind_the_rows_is_named_and_repaired) {
  auto src = source();
  auto st = src.open();
  for (auto id : {"a", "b", "c"})
    take(*st, id);
  // As after a backup of which one table was restored.
  side.run("update faulty_seq set last_number = 1");
  auto found = src.check_schema();
  BOOST_TEST((found.also == ec::schema_missing));
  BOOST_TEST(found.detail
             == "table faulty_seq: last_number is 1, but there is a "
                "fencing_token 3");
  // Even without the repair no row goes backwards.
  side.run("update faulty set expires_at = 0");
  BOOST_TEST(acquire(*st, "c", "bob").number > 3);
  side.run("update faulty_seq set last_number = 1");
  BOOST_TEST(src.apply_schema().detail == "");
  BOOST_TEST(last_number() == "4");
  BOOST_TEST(acquire(*st, "d").number == 5);
}

BOOST_AUTO_TEST_CASE(a_counter_without_its_row_is_refused) {
  auto src = source();
  auto st = src.open();
  take(*st, "a");
  side.run("delete from faulty_seq");
  auto result = acquire(*st, "b");
  BOOST_TEST((result.code == ec::store_failed));
  BOOST_TEST((result.also == ec::schema_missing));
  BOOST_TEST(src.check_schema().detail == "table faulty_seq has no row");
  BOOST_TEST(src.apply_schema().detail == "");
  BOOST_TEST(acquire(*st, "b").number == 2);
}

// contract 18, 238
BOOST_AUTO_TEST_CASE(the_defaults_of_the_server_do_not_matter) {
  std::vector<std::pair<std::string, std::string>> defaults{
    {"tx_isolation", "'REPEATABLE-READ'"},
    {"tx_isolation", "'SERIALIZABLE'"},
    {"tx_isolation", "'READ-UNCOMMITTED'"},
    {"tx_read_only", "1"},
    {"autocommit", "0"},
    {"completion_type", "2"},
    {"sql_mode", "''"},
    {"sql_mode", "'ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'"},
    {"sql_mode", "'ORACLE'"},
    {"sql_safe_updates", "1"},
    {"sql_select_limit", "3"},
    {"group_concat_max_len", "10"},
    {"time_zone", "'+05:30'"},
    {"character_set_server", "'utf16'"},
  };
  int round = 0;
  for (auto& [name, value] : defaults) {
    server_default set{side, name, value};
    auto prefix = std::to_string(round++) + "/";
    auto st = source().open();
    auto other = source().open();
    std::atomic<int> won = 0;
    std::atomic<int> bad = 0;
    auto race = [&](store& mine, const char* holder) {
      for (int i = 0; i < 5; ++i) {
        std::vector<operation> ops;
        for (int k = 0; k < 10; ++k)
          ops.push_back(operation::acquire(prefix + std::to_string(10 * i + k),
                                           holder, 60s));
        for (auto& x : mine.execute(ops)) {
          won += x.ok() ? 1 : 0;
          bad += x.ok() || x.code == ec::lease_held ? 0 : 1;
        }
      }
    };
    std::thread thread{[&] { race(*other, "bob"); }};
    race(*st, "ann");
    thread.join();
    BOOST_TEST(won == 50, name << " " << value << ": " << won);
    BOOST_TEST(bad == 0, name << " " << value);
    auto tok = take(*st, prefix + "it's \"quoted\" `so` \\' ");
    BOOST_TEST(run(*st, operation::checkpoint(tok, 60s, "'\\\"")).ok());
    BOOST_TEST(
      (run(*other, operation::read(tok)).previous.state.value() == "'\\\""));
    BOOST_TEST(run(*st, operation::release(tok, exit_mode::finished)).ok());
  }
}

BOOST_AUTO_TEST_CASE(batches_in_any_order_do_not_deadlock) {
  constexpr int sessions = 3;
  auto before = deadlocks();
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
          // Taken over again and again.
          ops.push_back(operation::acquire(
            "lapsed" + std::to_string(i * (s + 1) * 7 % 50), "ann", -1s));
        }
        for (auto& result : st->execute(ops))
          bad += result.ok() || result.code == ec::lease_held ? 0 : 1;
        bad += st->sweep({0s, true}).code == ec::none ? 0 : 1;
      }
    });
  for (auto& thread : threads)
    thread.join();
  BOOST_TEST(bad == 0);
  BOOST_TEST(deadlocks() == before);
}

BOOST_AUTO_TEST_CASE(no_operation_reads_rows_that_are_not_its_own) {
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
  side.run("insert into faulty (work_id, holder_id, fencing_token, expires_at,"
           " acquired_at, updated_at) select concat('job', seq), 'ann', seq,"
           " 0, 0, 0 from seq_1_to_5000");
  server_default counting{side, "userstat", "1"};
  side.run("flush table_statistics");
  st = source().open();
  use("second");
  list_query query;
  query.prefix = "job4";
  query.limit = 10;
  BOOST_TEST(st->list(query).rows.size() == 10u);
  auto rows = std::stol(
    side.run("select rows_read from information_schema.table_statistics where "
             "table_name = 'faulty'"));
  BOOST_TEST(rows < 60, rows);
}

// contract 233
BOOST_AUTO_TEST_CASE(many_may_apply_the_schema_at_once) {
  for (int round = 0; round < 3; ++round) {
    side.run("drop table faulty, faulty_seq");
    std::vector<failure> results(8);
    std::vector<std::thread> threads;
    for (auto& result : results)
      threads.emplace_back([&, this] { result = source().apply_schema(); });
    for (auto& thread : threads)
      thread.join();
    for (auto& result : results)
      BOOST_TEST(result.detail == "");
    BOOST_TEST(last_number() == "0");
  }
}

BOOST_AUTO_TEST_CASE(a_check_names_each_difference) {
  side.run("alter table faulty drop column request_id, "
           "modify column holder_id varchar(20), "
           "drop primary key, add primary key (work_id, fencing_token);"
           "alter table faulty_seq engine = Aria");
  auto found = source().check_schema();
  BOOST_TEST((found.also == ec::schema_missing));
  BOOST_TEST(found.detail
             == "table faulty: column work_id is not the key\n"
                "table faulty: column holder_id is varchar(20) instead of "
                "varbinary(512)\n"
                "table faulty: column request_id is missing\n"
                "table faulty_seq is kept by Aria instead of InnoDB");
}

BOOST_AUTO_TEST_CASE(a_table_of_another_database_can_be_used) {
  side.run("drop database if exists ops; create database ops;"
           "grant all on ops.* to lease");
  auto src = source(5s, test::mysql_url() + "?table=ops.leases");
  BOOST_TEST((src.check_schema().detail
              == "table ops.leases does not exist\n"
                 "table ops.leases_seq does not exist"));
  BOOST_TEST(src.apply_schema().detail == "");
  auto st = src.open();
  BOOST_TEST(run(*st, operation::renew(take(*st, "job"), 60s)).ok());
  BOOST_TEST(side.run("select last_number from ops.leases_seq") == "1");
  side.run("drop database ops");
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
  side.run("drop user if exists `o d'd@:/user`");
  side.run("create user `o d'd@:/user`; "
           "grant all on lease.* to `o d'd@:/user`");
  for (std::string_view password :
       {"two words", " lead", "it's", "say \"so\"", "a@b:c/d#e?f%g&h=i",
        "back\\slash", "end\\", "pässwörd\xF0\x9F\x94\x91", "$1 {} ;--", "="}) {
    auto literal = std::string{};
    for (auto c : password)
      literal += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string{c};
    side.run("set names utf8mb4; set password for `o d'd@:/user` = password('"
             + literal + "')");
    auto url = url_as(encode("o d'd@:/user") + ":" + encode(password));
    auto src = source(5s, url);
    BOOST_TEST(src.check_schema().detail == "", password);
    BOOST_TEST(!has(src.display(), encode(password)));
    BOOST_TEST(has(src.display(), ":***@"));
  }
  auto wrong = source(5s, url_as("lease:wrong%20one")).open();
  auto result = acquire(*wrong, "job");
  BOOST_TEST((result.code == ec::unavailable));
  BOOST_TEST(has(result.detail, "Access denied"));
  BOOST_TEST(!has(result.detail, "wrong one"));
}

BOOST_AUTO_TEST_CASE(a_unix_socket_works) {
  auto src = source(5s, "mariadb://lease:lease@/lease?socket="
                          + test::environment("LEASEHOLD_TEST_MYSQL_SOCKET"));
  BOOST_TEST(src.check_schema().detail == "");
  BOOST_TEST(acquire(*src.open(), "job").ok());
}

BOOST_AUTO_TEST_CASE(a_connection_that_must_be_encrypted_is_refused_without) {
  auto src = source(5s, test::mysql_url() + "?ssl-ca=/no/such/file");
  auto result = acquire(*src.open(), "job");
  BOOST_TEST((result.code == ec::unavailable));
}

BOOST_AUTO_TEST_CASE(neither_ids_nor_states_reach_a_message) {
  side.run("alter table faulty add check (octet_length(checkpoint) < 10),"
           " add unique key (holder_id)");
  auto st = source().open();
  auto tok = take(*st, "confidential");
  auto twice = acquire(*st, "confidential/2");
  BOOST_TEST((twice.code == ec::store_failed));
  BOOST_TEST(has(twice.detail, "1062"));
  for (auto part : {"confidential", "ann", "636f6e66", "616E6E"})
    BOOST_TEST(!has(twice.detail, part));
  for (auto size : {100u, 10'000u}) {
    auto result
      = run(*st, operation::checkpoint(tok, 60s, std::string(size, 's')));
    BOOST_TEST((result.code == ec::store_failed));
    BOOST_TEST(!has(result.detail, "confidential"));
    BOOST_TEST(!has(result.detail, "sss"));
    BOOST_TEST(!has(result.detail, "7373"));
  }
}

BOOST_AUTO_TEST_CASE(a_state_over_the_limit_is_refused) {
  auto st = source().open();
  auto tok = take(*st, "job");
  auto result = run(
    *st, operation::checkpoint(tok, 60s, std::string(17u * 1024 * 1024, 'x')));
  BOOST_TEST((result.code == ec::state_too_large));
}

BOOST_AUTO_TEST_CASE(a_server_that_takes_small_packets_says_how_small) {
  server_default small{side, "max_allowed_packet", "1048576"};
  auto st = source(20s).open();
  auto tok = take(*st, "job");
  auto result = run(
    *st, operation::checkpoint(tok, 60s, std::string(2u * 1024 * 1024, 'x')));
  BOOST_TEST((result.code == ec::state_too_large));
  BOOST_TEST(has(result.detail, "max_allowed_packet"));
  BOOST_TEST(has(result.detail, "1048576"));
  BOOST_TEST(
    run(*st, operation::checkpoint(tok, 60s, std::string(1024 * 1024, 'x')))
      .ok());
  // Batches of the longest IDs and states fit all the same.
  std::vector<operation> ops;
  for (int i = 0; i < 600; ++i) {
    auto id = std::to_string(1000 + i);
    ops.push_back(operation::acquire(id + std::string(512 - id.size(), 'i'),
                                     std::string(512, 'h'), 60s));
  }
  auto granted = st->execute(ops);
  std::vector<operation> states;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    BOOST_TEST_REQUIRE(granted[i].ok(), granted[i].detail);
    states.push_back(operation::checkpoint(
      internal::token_access::make(ops[i].work_id, ops[i].holder_id,
                                   granted[i].number, 0),
      60s, std::string(4096, 's')));
  }
  for (auto& x : st->execute(states))
    BOOST_TEST_REQUIRE(x.ok(), x.detail);
}

BOOST_AUTO_TEST_SUITE_END()
