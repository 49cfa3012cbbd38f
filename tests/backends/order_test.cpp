// SPDX-License-Identifier: Apache-2.0
// What sessions do to one work ID, in every order there is, against the store
// in memory as the model.
#include "leasehold/backend/memory.hpp"

#include "support/postgres.hpp"
#include "support/temporary_folder.hpp"

#include <signal.h>
#include <soci/soci.h>
#include <soci/sqlite3/soci-sqlite3.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
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

constexpr auto ttl = duration{60s};
constexpr auto retention = duration{1h};

/// A store whose rows can be made older and whose writers can be held up: what
/// another database needs to take part.
class world {
public:
  virtual ~world() = default;

  virtual store_ptr open() = 0;

  /// Lets time pass for these rows alone.
  virtual void pass(const std::vector<std::string>& work_ids, duration x) = 0;

  /// Nobody writes to this row before `let_go`.
  virtual void hold_up(const std::string& work_id, bool exists) = 0;

  virtual void let_go() = 0;

  /// Returns when so many sessions wait for what is held up, or `done`.
  virtual void await_waiting(std::size_t count,
                             const std::function<bool()>& done)
    = 0;

protected:
  static std::string list_of(const std::vector<std::string>& work_ids) {
    std::string result;
    for (auto& id : work_ids)
      result += (result.empty() ? "'" : ", '") + id + "'";
    return result;
  }
};

class postgres_world : public world {
public:
  /// With the isolation level that the role has by default.
  explicit postgres_world(const std::string& isolation = "read committed") {
    side.run("drop table if exists orders; drop sequence if exists orders_seq");
    side.run("alter role lease set default_transaction_isolation = '"
             + isolation + "'");
    BOOST_TEST_REQUIRE(source.apply_schema().detail == "");
  }

  ~postgres_world() override {
    side.run("alter role lease reset default_transaction_isolation");
  }

  store_ptr open() override {
    return source.open();
  }

  void pass(const std::vector<std::string>& work_ids, duration x) override {
    auto age = std::to_string(x.count()) + " * interval '1 microsecond'";
    side.run("update orders set expires_at = expires_at - " + age
             + ", acquired_at = acquired_at - " + age
             + ", updated_at = updated_at - " + age + " where work_id in ("
             + list_of(work_ids) + ")");
  }

  void hold_up(const std::string& work_id, bool exists) override {
    side.run("begin");
    side.run(exists ? "select 1 from orders where work_id = '" + work_id
                        + "' for update"
                    : "insert into orders (work_id, holder_id, fencing_token, "
                      "expires_at) values ('"
                        + work_id + "', 'nobody', 0, now())");
  }

  void let_go() override {
    side.run("rollback");
  }

  void await_waiting(std::size_t count,
                     const std::function<bool()>& done) override {
    while (watch.run("select count(distinct pid) from pg_locks where not "
                     "granted")
             != std::to_string(count)
           && !done())
      ; // each look takes a round trip
  }

  static store_source make() {
    store_options options;
    options.table = "orders";
    options.timeout = 20s;
    return test::postgres_source(test::postgres_url(), options);
  }

  test::side_connection side;
  test::side_connection watch;
  store_source source = make();
};

class sqlite_world : public world {
public:
  sqlite_world() {
    BOOST_TEST_REQUIRE(source.apply_schema().detail == "");
    side.open(soci::sqlite3, "db=" + folder.path() + "/leases.db timeout=10");
  }

  store_ptr open() override {
    return source.open();
  }

  void pass(const std::vector<std::string>& work_ids, duration x) override {
    auto age = std::to_string(x.count());
    side << "update leasehold_leases set expires_at = expires_at - " + age
              + ", acquired_at = acquired_at - " + age
              + ", updated_at = updated_at - " + age + " where work_id in ("
              + list_of(work_ids) + ")";
  }

  void hold_up(const std::string&, bool) override {
    side << "begin immediate";
  }

  void let_go() override {
    side << "rollback";
  }

  // SQLite keeps no book on who waits: in which order they get in is open.
  void await_waiting(std::size_t, const std::function<bool()>&) override {
    // nop
  }

  store_source make() const {
    store_options options;
    options.timeout = 20s;
    auto result = store_source::parse(
      "sqlite://" + folder.path() + "/leases.db", options);
    return std::get<store_source>(std::move(result));
  }

  test::temporary_folder folder;
  store_source source = make();
  soci::session side;
};

// ---------------------------------------------------------------------------

enum class step : std::uint8_t {
  acquire,
  checkpoint,
  renew,
  release,
  retire,
  forget,
  /// The lease runs out.
  lapse,
  /// All becomes older than the retention, and is swept.
  sweep,
};

/// A model of one work ID: a store of its own, and its own time.
struct model {
  std::int64_t now_us = 1'700'000'000'000'000;
  memory_store store{[this] { return now_us; }};
};

/// A session's knowledge about one work ID.
struct knowledge {
  std::int64_t number = 0;
  std::int64_t model_number = 0;
  int steps = 0;
};

const char* holder_name(std::size_t session) {
  constexpr std::array<const char*, 4> names{"ann", "bob", "cid", "dan"};
  return names[session];
}

operation to_operation(step what, const std::string& work_id,
                       std::size_t session, std::int64_t number, int count) {
  auto tok
    = internal::token_access::make(work_id, holder_name(session), number, 0);
  switch (what) {
    case step::acquire:
      return operation::acquire(work_id, holder_name(session), ttl,
                                static_cast<std::int64_t>(session) * 100
                                  + count);
    case step::checkpoint:
      return operation::checkpoint(
        tok, ttl, holder_name(session) + std::to_string(count), count);
    case step::renew:
      return operation::renew(tok, ttl);
    case step::release:
      return operation::release(tok, exit_mode::finished);
    case step::retire:
      return operation::release(tok, exit_mode::retired);
    default:
      return operation::forget(tok);
  }
}

std::string text(const prior& x) {
  return to_string(x.exit) + "/" + x.holder_id + "/" + x.state.value_or("-");
}

/// Without its number, which is compared by order alone.
std::string text(const row& x) {
  return x.holder_id + ", exit " + to_string(x.exit) + ", found "
         + to_string(x.previous_exit) + "/" + x.previous_holder_id + ", state "
         + x.state.value_or("-");
}

std::string text(const outcome& x) {
  auto result = to_string(x.code);
  if (x.code == ec::lease_held)
    result += " by " + x.holder_id;
  return result + " found " + text(x.previous);
}

/// One interleaving on one work ID.
struct order {
  std::string work_id;
  std::vector<std::vector<step>> scripts;
  std::vector<std::size_t> turns;
  std::unique_ptr<model> expected = std::make_unique<model>();
  std::vector<knowledge> known;
  /// Numbers of the store by number of the model.
  std::map<std::int64_t, std::int64_t> numbers;
  std::string trace;
};

using script = std::vector<step>;

/// All orders of the steps of some scripts.
void add_orders(std::vector<order>& all, const std::string& prefix,
                const std::vector<script>& scripts) {
  std::vector<std::size_t> turns;
  for (std::size_t s = 0; s < scripts.size(); ++s)
    turns.insert(turns.end(), scripts[s].size(), s);
  do {
    order next;
    next.work_id = prefix + std::to_string(all.size());
    next.scripts = scripts;
    next.turns = turns;
    next.known.resize(scripts.size());
    all.push_back(std::move(next));
  } while (std::next_permutation(turns.begin(), turns.end()));
}

/// Runs all orders at once, step by step: they are on different work IDs, so
/// that they do not meet. Returns how many steps were compared.
std::size_t run_orders(world& where, std::vector<order>& all) {
  std::size_t compared = 0;
  std::size_t longest = 0;
  std::size_t sessions = 0;
  for (auto& x : all) {
    longest = std::max(longest, x.turns.size());
    sessions = std::max(sessions, x.scripts.size());
  }
  std::vector<store_ptr> stores;
  for (std::size_t s = 0; s < sessions; ++s)
    stores.push_back(where.open());
  for (std::size_t k = 0; k < longest; ++k) {
    std::vector<std::string> lapsing;
    std::vector<std::string> swept;
    for (std::size_t s = 0; s < sessions; ++s) {
      std::vector<operation> ops;
      std::vector<order*> owners;
      for (auto& x : all) {
        if (k >= x.turns.size() || x.turns[k] != s)
          continue;
        auto& known = x.known[s];
        auto what = x.scripts[s][static_cast<std::size_t>(known.steps++)];
        x.trace += std::string{" "} + holder_name(s)
                   + std::to_string(static_cast<int>(what));
        if (what == step::lapse) {
          x.expected->now_us += (2 * ttl).count();
          lapsing.push_back(x.work_id);
        } else if (what == step::sweep) {
          x.expected->now_us += (2 * retention).count();
          x.expected->store.sweep({retention, true});
          swept.push_back(x.work_id);
        } else {
          ops.push_back(
            to_operation(what, x.work_id, s, known.number, known.steps));
          owners.push_back(&x);
        }
      }
      auto results = stores[s]->execute(ops);
      BOOST_TEST_REQUIRE(results.size() == ops.size());
      for (std::size_t i = 0; i < ops.size(); ++i) {
        auto& x = *owners[i];
        auto& got = results[i];
        auto op = ops[i];
        op.number = x.known[s].model_number;
        auto wanted = x.expected->store.execute({&op, 1}).front();
        ++compared;
        if (text(got) != text(wanted))
          BOOST_FAIL(x.trace << ": " << text(got) << " instead of "
                             << text(wanted));
        if (op.kind == op_kind::acquire && got.ok()) {
          // contract 76
          if (!x.numbers.empty() && x.numbers.rbegin()->second >= got.number)
            BOOST_FAIL(x.trace << ": the number did not grow");
          x.numbers.emplace(wanted.number, got.number);
          x.known[s].number = got.number;
          x.known[s].model_number = wanted.number;
        } else if (wanted.number != 0 && got.number != x.numbers[wanted.number])
          BOOST_FAIL(x.trace << ": wrong number");
      }
    }
    if (!lapsing.empty())
      where.pass(lapsing, 2 * ttl);
    if (!swept.empty()) {
      where.pass(swept, 2 * retention);
      BOOST_TEST_REQUIRE(stores[0]->sweep({retention, true}).code == ec::none);
    }
    // contract 50, 51: the row is what the model has, whatever was tried.
    list_query query;
    query.with_state = true;
    auto found = stores[k % sessions]->list(query);
    BOOST_TEST_REQUIRE(found.code == ec::none);
    std::map<std::string, row*> rows;
    for (auto& r : found.rows)
      rows.emplace(r.work_id, &r);
    for (auto& x : all) {
      auto wanted = x.expected->store.list(query).rows;
      auto pos = rows.find(x.work_id);
      if (wanted.empty() != (pos == rows.end()))
        BOOST_FAIL(x.trace << ": the row");
      if (wanted.empty())
        continue;
      if (text(*pos->second) != text(wanted[0])
          || pos->second->number != x.numbers[wanted[0].number])
        BOOST_FAIL(x.trace << ": " << text(*pos->second) << " instead of "
                           << text(wanted[0]));
    }
  }
  return compared;
}

constexpr std::array changes{step::checkpoint, step::renew, step::release,
                             step::forget};

/// Two sessions that each acquire and do any two things.
std::size_t two_sessions(world& where) {
  std::vector<order> all;
  for (auto a : changes)
    for (auto b : changes)
      for (auto c : changes)
        for (auto d : changes)
          add_orders(all, "two",
                     {{step::acquire, a, b}, {step::acquire, c, d}});
  return run_orders(where, all);
}

/// Three sessions, or two and time.
std::size_t three_sessions(world& where) {
  std::vector<order> all;
  for (auto a : changes)
    for (auto b : changes)
      for (auto c : changes)
        add_orders(
          all, "three",
          {{step::acquire, a}, {step::acquire, b}, {step::acquire, c}});
  for (auto a : changes)
    for (auto b : {step::checkpoint, step::renew, step::retire, step::forget})
      add_orders(all, "three",
                 {{step::acquire, a, step::acquire},
                  {step::acquire, b},
                  {step::lapse, step::sweep}});
  add_orders(all, "three",
             {{step::acquire, step::checkpoint, step::release},
              {step::acquire, step::checkpoint, step::release},
              {step::acquire, step::checkpoint, step::release}});
  return run_orders(where, all);
}

// ---------------------------------------------------------------------------

/// How a work ID stands before sessions meet at it.
enum class standing : std::uint8_t { absent, held, lapsed, finished, retired };

/// What a session does there; `ann` is the one that has or had the lease.
struct act {
  step what = step::acquire;
  std::size_t session = 0;
};

/// What was seen: text of each outcome, text of the row, and the numbers
/// granted, first the one of the standing.
struct sight {
  std::vector<std::string> outcomes;
  std::string row;
  std::vector<std::int64_t> numbers;

  /// Whether both tell the same, numbers by their order alone.
  bool matches(const sight& other) const {
    if (outcomes != other.outcomes || row != other.row)
      return false;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      for (std::size_t k = 0; k < numbers.size(); ++k)
        if ((numbers[i] < numbers[k]) != (other.numbers[i] < other.numbers[k]))
          return false;
    return true;
  }
};

std::string row_text(store& st, const std::string& work_id) {
  list_query query;
  query.work_id = work_id;
  query.with_state = true;
  auto found = st.list(query);
  BOOST_TEST_REQUIRE(found.code == ec::none);
  return found.rows.empty() ? "none" : text(found.rows[0]);
}

/// Puts a work ID into a standing; returns ann's number.
std::int64_t prepare(store& st, const std::string& work_id, standing from,
                     const std::function<void(duration)>& pass) {
  auto run = [&](const operation& op) {
    auto result = st.execute({&op, 1}).front();
    BOOST_TEST_REQUIRE(result.code == ec::none);
    return result.number;
  };
  auto number = run(operation::acquire(work_id, "ann", ttl, 1));
  auto tok = internal::token_access::make(work_id, "ann", number, 0);
  run(operation::checkpoint(tok, ttl, "start", 1));
  switch (from) {
    case standing::absent:
      run(operation::forget(tok));
      break;
    case standing::lapsed:
      pass(2 * retention);
      break;
    case standing::finished:
      run(operation::release(tok, exit_mode::finished));
      break;
    case standing::retired:
      run(operation::release(tok, exit_mode::retired));
      pass(2 * retention);
      break;
    default:
      break;
  }
  return number;
}

/// What a session answers; a sweep's only answer is that it went well.
std::string do_act(store& st, const act& x, const std::string& work_id,
                   std::int64_t number, std::int64_t& granted) {
  if (x.what == step::sweep)
    return to_string(st.sweep({retention, true}).code);
  auto op = to_operation(x.what, work_id, x.session, number, 2);
  auto result = st.execute({&op, 1}).front();
  if (x.what == step::acquire && result.ok())
    granted = result.number;
  return text(result);
}

/// Every way in which the acts may have run one after the other. A sweep may
/// leave out a row that somebody else is writing.
std::vector<sight> possible(standing from, const std::vector<act>& acts) {
  std::vector<sight> result;
  std::vector<std::size_t> turns(acts.size());
  for (std::size_t i = 0; i < turns.size(); ++i)
    turns[i] = i;
  do
    for (unsigned skipped = 0; skipped < 1u << acts.size(); ++skipped) {
      auto valid = true;
      for (std::size_t i = 0; i < acts.size(); ++i)
        valid
          = valid && (acts[i].what == step::sweep || (skipped >> i & 1) == 0);
      if (!valid)
        continue;
      model m;
      sight seen;
      seen.outcomes.resize(acts.size());
      seen.numbers.resize(acts.size() + 1);
      auto pass = [&](duration x) { m.now_us += x.count(); };
      seen.numbers[0] = prepare(m.store, "job", from, pass);
      for (auto i : turns)
        seen.outcomes[i] = (skipped >> i & 1) != 0
                             ? "none"
                             : do_act(m.store, acts[i], "job", seen.numbers[0],
                                      seen.numbers[i + 1]);
      seen.row = row_text(m.store, "job");
      result.push_back(std::move(seen));
    }
  while (std::next_permutation(turns.begin(), turns.end()));
  return result;
}

/// Lets sessions queue up, in this order, for a row that is held up, and then
/// go on all at once.
void meet(world& where, std::vector<store_ptr>& stores,
          const std::string& work_id, standing from,
          const std::vector<act>& acts) {
  sight seen;
  seen.outcomes.resize(acts.size());
  seen.numbers.resize(acts.size() + 1);
  seen.numbers[0] = prepare(*stores[0], work_id, from,
                            [&](duration x) { where.pass({work_id}, x); });
  where.hold_up(work_id, from != standing::absent);
  std::vector<std::future<void>> calls;
  for (std::size_t i = 0; i < acts.size(); ++i) {
    calls.push_back(std::async(std::launch::async, [&, i] {
      seen.outcomes[i] = do_act(*stores[i], acts[i], work_id, seen.numbers[0],
                                seen.numbers[i + 1]);
    }));
    auto is_done = [](auto& call) {
      return call.wait_for(0s) == std::future_status::ready;
    };
    auto running = static_cast<std::size_t>(
      std::count_if(calls.begin(), calls.end(), std::not_fn(is_done)));
    where.await_waiting(running, [&] { return is_done(calls.back()); });
  }
  where.let_go();
  for (auto& call : calls)
    call.get();
  seen.row = row_text(*stores[0], work_id);
  // contract 76, 81
  for (std::size_t i = 1; i < seen.numbers.size(); ++i)
    BOOST_TEST_REQUIRE(
      (seen.numbers[i] == 0 || seen.numbers[i] > seen.numbers[0]));
  for (auto& x : possible(from, acts))
    if (seen.matches(x))
      return;
  std::string what = "standing " + std::to_string(static_cast<int>(from));
  for (std::size_t i = 0; i < acts.size(); ++i)
    what += "; " + std::string{holder_name(acts[i].session)} + " does "
            + std::to_string(static_cast<int>(acts[i].what)) + ": "
            + seen.outcomes[i];
  BOOST_FAIL("no order explains it: " << what << "; row " << seen.row);
}

const std::vector<act> all_acts{
  {step::acquire, 1}, {step::acquire, 2}, {step::checkpoint, 0},
  {step::renew, 0},   {step::release, 0}, {step::forget, 0},
  {step::sweep, 0},
};

std::vector<store_ptr> three(world& where) {
  std::vector<store_ptr> result;
  for (int i = 0; i < 3; ++i)
    result.push_back(where.open());
  return result;
}

int meet_in_pairs(world& where) {
  auto stores = three(where);
  auto count = 0;
  for (auto from : {standing::absent, standing::held, standing::lapsed,
                    standing::finished, standing::retired})
    for (auto& a : all_acts)
      for (auto& b : all_acts)
        meet(where, stores, "pair" + std::to_string(++count), from, {a, b});
  return count;
}

int meet_in_threes(world& where, std::vector<standing> standings) {
  auto stores = three(where);
  auto count = 0;
  for (auto from : standings)
    for (auto& a : all_acts)
      for (auto& b : all_acts)
        for (auto& c : all_acts)
          meet(where, stores, "three" + std::to_string(++count), from,
               {a, b, c});
  return count;
}

} // namespace

BOOST_AUTO_TEST_SUITE(postgres_order_suite)

// contract 11-16, 50-53, 57-61, 64-68, 71-77, 217-219, 225, 230
BOOST_AUTO_TEST_CASE(any_order_of_statements_agrees_with_the_model) {
  postgres_world where;
  auto compared = two_sessions(where) + three_sessions(where);
  BOOST_TEST_MESSAGE(compared << " outcomes compared");
}

// contract 238
BOOST_AUTO_TEST_CASE(a_stricter_isolation_of_the_role_changes_nothing) {
  for (auto isolation : {"repeatable read", "serializable"}) {
    postgres_world where{isolation};
    meet_in_pairs(where);
  }
}

// contract 18, 81, 238
BOOST_AUTO_TEST_CASE(sessions_that_queue_for_a_row_act_as_if_in_some_order) {
  postgres_world where;
  meet_in_pairs(where);
  meet_in_threes(where, {standing::lapsed, standing::absent});
}

// contract 81: a session that stops between drawing a number and storing it
// must not store it after a larger one was issued for the same work ID.
BOOST_AUTO_TEST_CASE(a_number_that_was_drawn_early_is_never_stored_late) {
  postgres_world where;
  auto slow = where.open();
  auto quick = where.open();
  auto run = [](store& st, const operation& op) {
    return st.execute({&op, 1}).front();
  };

  struct variant {
    std::string work_id;
    standing from;
    step deletion;
  };

  for (auto& [id, from, deletion] :
       {variant{"a", standing::absent, step::forget},
        variant{"b", standing::absent, step::sweep},
        variant{"c", standing::lapsed, step::forget},
        variant{"d", standing::finished, step::sweep}}) {
    auto pass = [&, id = id](duration x) { where.pass({id}, x); };
    prepare(*quick, id, from, pass);
    where.hold_up(id, from != standing::absent);
    auto late = std::async(std::launch::async, [&, id = id] {
      return run(*slow, operation::acquire(id, "dan", ttl, 1));
    });
    where.await_waiting(1, [] { return false; });
    auto pid = static_cast<pid_t>(
      std::stol(where.watch.run("select pid from pg_locks where not granted")));
    BOOST_TEST_REQUIRE(::kill(pid, SIGSTOP) == 0);
    where.let_go();
    auto granted = run(*quick, operation::acquire(id, "bob", ttl, 2));
    BOOST_TEST(granted.code == ec::none);
    auto tok = internal::token_access::make(id, "bob", granted.number, 0);
    auto gone
      = std::async(std::launch::async, [&, deletion = deletion]() -> ec {
          if (deletion == step::forget)
            return run(*quick, operation::forget(tok)).code;
          run(*quick, operation::release(tok, exit_mode::retired));
          pass(2 * retention);
          return quick->sweep({retention}).code;
        });
    // It is either done, or waits for the one that stands still, and that has
    // been given what it waited for.
    where.await_waiting(
      1, [&] { return gone.wait_for(0s) == std::future_status::ready; });
    BOOST_TEST_REQUIRE(::kill(pid, SIGCONT) == 0);
    BOOST_TEST(gone.get() == ec::none);
    auto after = late.get();
    BOOST_TEST((after.code == ec::lease_held || after.number > granted.number),
               id << ": " << after.number << " was granted after "
                  << granted.number);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(sqlite_order_suite)

// contract 11-16, 50-53, 57-61, 64-68, 71-77, 217-219, 225, 230
BOOST_AUTO_TEST_CASE(any_order_of_statements_agrees_with_the_model) {
  sqlite_world where;
  auto compared = two_sessions(where) + three_sessions(where);
  BOOST_TEST_MESSAGE(compared << " outcomes compared");
}

BOOST_AUTO_TEST_CASE(sessions_that_queue_for_the_file_act_as_if_in_some_order) {
  sqlite_world where;
  meet_in_pairs(where);
}

BOOST_AUTO_TEST_SUITE_END()
