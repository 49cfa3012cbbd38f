// SPDX-License-Identifier: Apache-2.0
//
// Calls that block need real threads, so these cases run on real time. They
// wait for events, never for a time to pass; leases are short where one must
// run out.
#include "leasehold/backend/memory.hpp"
#include "leasehold/blocking.hpp"

#include "support/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>

using namespace leasehold;
using namespace std::chrono_literals;

using blocking::failed;
using blocking::retired;
using blocking::succeeded;

namespace {

// Only reached when something is broken.
constexpr auto patience = 30s;

/// Something that happens on one thread and is waited for on another.
class event {
public:
  void happen() {
    std::lock_guard guard{mtx_};
    ++count_;
    changed_.notify_all();
  }

  void wait(int times = 1) {
    std::unique_lock lock{mtx_};
    // Boost.Test itself is for the main thread alone.
    if (!changed_.wait_for(lock, patience, [&] { return count_ >= times; }))
      throw std::runtime_error("what the test waits for has not happened");
  }

  int count() {
    std::lock_guard guard{mtx_};
    return count_;
  }

private:
  std::mutex mtx_;
  std::condition_variable changed_;
  int count_ = 0;
};

/// What a test does to the store, from any thread.
struct faults {
  std::mutex mtx;
  std::condition_variable changed;
  bool hang = false;
  ec refuse = ec::none;
  std::vector<backend::op_kind> seen;

  void set_hang(bool x) {
    std::lock_guard guard{mtx};
    hang = x;
    changed.notify_all();
  }

  void set_refuse(ec x) {
    std::lock_guard guard{mtx};
    refuse = x;
  }

  std::size_t count_locked(backend::op_kind kind) const {
    return static_cast<std::size_t>(std::count(seen.begin(), seen.end(), kind));
  }

  std::size_t count(backend::op_kind kind) {
    std::lock_guard guard{mtx};
    return count_locked(kind);
  }

  void wait_for(backend::op_kind kind, std::size_t times) {
    std::unique_lock lock{mtx};
    BOOST_TEST_REQUIRE(changed.wait_for(
      lock, patience, [&] { return count_locked(kind) >= times; }));
  }
};

class faulty_store : public backend::store {
public:
  faulty_store(backend::store_ptr real, std::shared_ptr<faults> how)
    : real_(std::move(real)), how_(std::move(how)) {
    // nop
  }

  std::vector<backend::outcome>
  execute(std::span<const backend::operation> ops) override {
    {
      std::unique_lock lock{how_->mtx};
      for (auto& op : ops)
        how_->seen.push_back(op.kind);
      how_->changed.notify_all();
      how_->changed.wait(lock, [this] { return !how_->hang; });
      if (how_->refuse != ec::none) {
        backend::outcome none;
        none.code = how_->refuse;
        return std::vector<backend::outcome>(ops.size(), none);
      }
    }
    return real_->execute(ops);
  }

  backend::listing list(const backend::list_query& query) override {
    return real_->list(query);
  }

  backend::sweep_result sweep(const backend::sweep_query& query) override {
    return real_->sweep(query);
  }

private:
  backend::store_ptr real_;
  std::shared_ptr<faults> how_;
};

struct counting_observer : lease_observer {
  event renewed;
  event released;

  void on_renew(const token&, int, duration, const result_info& info) override {
    if (info.code == ec::none)
      renewed.happen();
  }

  void on_release(const token&, exit_mode, const result_info&) override {
    released.happen();
  }
};

struct fixture {
  std::atomic<std::int64_t> skew_us{0};
  backend::memory_store data{
    [this, real = system_store_clock()] { return real() + skew_us; }};
  std::shared_ptr<faults> how = std::make_shared<faults>();
  std::shared_ptr<counting_observer> seen
    = std::make_shared<counting_observer>();
  std::stop_source stop;
  std::atomic<int> calls{0};

  blocking::client_options options(std::string holder, duration ttl = 30s) {
    blocking::client_options result;
    result.holder_id = std::move(holder);
    result.ttl = ttl;
    result.observer = seen;
    return result;
  }

  blocking::store_factory store() {
    return [this] { return std::make_unique<faulty_store>(data.share(), how); };
  }

  blocking::client a{store(), options("node-a")};
  blocking::client b{[this] { return data.share(); }, options("node-b")};

  /// A client whose leases run out soon.
  blocking::client brief(duration ttl = 400ms) {
    return blocking::client{store(), options("node-c", ttl)};
  }

  ~fixture() {
    how->set_hang(false);
  }

  std::optional<backend::row> row(std::string work_id) {
    backend::list_query query;
    query.work_id = std::move(work_id);
    query.with_state = true;
    auto got = data.list(query);
    if (got.rows.empty())
      return std::nullopt;
    return got.rows.front();
  }

  exit_mode exit_of(std::string work_id) {
    return row(std::move(work_id)).value().exit;
  }

  /// Takes a lease away from whoever has it, as an operator would.
  void steal(const token& tok) {
    std::vector<backend::operation> ops{
      backend::operation::release(tok, exit_mode::abandoned),
      backend::operation::acquire(tok.work_id(), "thief", 1h)};
    for (auto& got : data.execute(ops))
      BOOST_TEST_REQUIRE(got.ok());
  }

  /// A work function that must not be called.
  blocking::work_function never() {
    return [this](blocking::work_context&) {
      ++calls;
      return succeeded();
    };
  }

  template <class T>
  static T get(std::future<T>& x) {
    BOOST_TEST_REQUIRE((x.wait_for(patience) == std::future_status::ready));
    return x.get();
  }
};

blocking::acquire_options waiting(std::stop_token stop = {}) {
  blocking::acquire_options result;
  result.wait = true;
  // Longer than any test: only an event ends the wait.
  result.poll = 1h;
  result.stop = std::move(stop);
  return result;
}

template <class F>
blocking::failure thrown_by(F f) {
  try {
    f();
  } catch (const blocking::error& x) {
    BOOST_TEST(std::string{x.what()} == render(x.why()));
    return x.why();
  }
  return {};
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(blocking_client_suite, fixture)

// contract 1-6, 8
BOOST_AUTO_TEST_CASE(refuses_options_that_cannot_work) {
  auto code = [&](blocking::client_options x) {
    auto why = thrown_by([&] { blocking::client{store(), std::move(x)}; });
    BOOST_TEST(why.matches(ec::config_invalid));
    return why.code;
  };
  BOOST_TEST((code(options("")) == ec::holder_invalid));
  BOOST_TEST((code(options("x", 0s)) == ec::ttl_invalid));
  BOOST_TEST((code(options("x", -1s)) == ec::ttl_invalid));
  BOOST_TEST((code(options("x", 999us)) == ec::ttl_invalid));
  auto none = thrown_by([&] {
    blocking::client{blocking::store_factory{}, options("x")};
  });
  BOOST_TEST(none.matches(ec::nil_backend));
  BOOST_TEST(none.matches(ec::config_invalid));
  auto null = thrown_by([&] {
    blocking::client{[] { return nullptr; }, options("x")};
  });
  BOOST_TEST(null.matches(ec::nil_backend));
  BOOST_TEST(how->seen.empty());
}

BOOST_AUTO_TEST_CASE(a_url_is_a_store) {
  auto bad = thrown_by([&] { blocking::client{"mongo:", options("x")}; });
  BOOST_TEST(bad.matches(ec::config_invalid));
  test::temporary_folder folder;
  auto url = "sqlite://" + folder.path() + "/leases.db";
  // contract 240
  blocking::client early{url, options("x")};
  auto missing = early.acquire("w");
  BOOST_TEST(missing.matches(ec::store_failed));
  BOOST_TEST(missing.matches(ec::schema_missing));
  auto checked = options("x");
  checked.schema = backend::schema_policy::check;
  BOOST_TEST(thrown_by([&] {
               blocking::client{url, checked};
             }).matches(ec::schema_missing));
  checked.schema = backend::schema_policy::apply;
  blocking::client late{url, checked};
  BOOST_TEST(late.acquire("w").ok());
}

BOOST_AUTO_TEST_CASE(a_store_may_have_several_sessions) {
  auto many = options("x");
  many.sessions = 2;
  blocking::client c{store(), many};
  auto got = c.acquire("w");
  BOOST_TEST_REQUIRE(got.ok());
  BOOST_TEST(got->renew().ok());
  BOOST_TEST(c.sweep(1h).ok());
}

BOOST_AUTO_TEST_CASE(a_result_is_a_value_or_a_failure) {
  blocking::result<int> good{7};
  BOOST_TEST(good.ok());
  BOOST_TEST(good.value() == 7);
  BOOST_TEST(!good.matches(ec::none));
  blocking::failure why{ec::ttl_invalid, ec::none, "no"};
  blocking::result<int> bad{why};
  BOOST_TEST(!bad.ok());
  BOOST_TEST(bad.matches(ec::config_invalid));
  BOOST_TEST((thrown_by([&] { (void)bad.value(); }).code == ec::ttl_invalid));
  blocking::result<void> worse{why};
  BOOST_TEST((thrown_by([&] { worse.value(); }).code == ec::ttl_invalid));
  BOOST_TEST(render(why) == "ttl_invalid: no");
}

// -- acquire ------------------------------------------------------------------

// contract 10
BOOST_AUTO_TEST_CASE(a_bad_work_id_is_refused_here) {
  BOOST_TEST((a.acquire("").why().code == ec::invalid_argument));
  BOOST_TEST(how->seen.empty());
}

// contract 11, 37, 96
BOOST_AUTO_TEST_CASE(a_grant_brings_token_prior_and_window) {
  auto got = a.acquire("w");
  BOOST_TEST_REQUIRE(got.ok());
  BOOST_TEST(got->token().work_id() == "w");
  BOOST_TEST(got->token().holder_id() == "node-a");
  BOOST_TEST(got->token().number() > 0);
  BOOST_TEST((got->found() == prior{}));
  BOOST_TEST(got->held());
  BOOST_TEST(!got->stop_requested());
  BOOST_TEST((got->window_left() > 0s && got->window_left() < 30s));
  BOOST_TEST((got->why_lost().code == ec::none));
}

// contract 12, 13, 30
BOOST_AUTO_TEST_CASE(what_is_held_is_refused_after_one_attempt) {
  auto first = b.acquire("w");
  BOOST_TEST_REQUIRE(first.ok());
  blocking::acquire_options poll_alone;
  poll_alone.poll = 1ms;
  auto second = a.acquire("w", poll_alone);
  BOOST_TEST(second.matches(ec::lease_held));
  BOOST_TEST(how->count(backend::op_kind::acquire) == 1u);
  BOOST_TEST(b.acquire("w").matches(ec::lease_held));
}

// contract 18
BOOST_AUTO_TEST_CASE(of_many_threads_one_gets_it) {
  std::vector<std::future<bool>> all;
  // The winner keeps it until all have tried.
  std::promise<void> tried;
  auto done = tried.get_future().share();
  event asked;
  for (int i = 0; i < 8; ++i)
    all.push_back(std::async(std::launch::async, [&, i, done] {
      auto got = (i % 2 == 0 ? a : b).acquire("w");
      asked.happen();
      done.wait();
      return got.ok() || !got.matches(ec::lease_held);
    }));
  asked.wait(8);
  tried.set_value();
  int won = 0;
  for (auto& x : all)
    won += get(x) ? 1 : 0;
  BOOST_TEST(won == 1);
}

// contract 27, 34
BOOST_AUTO_TEST_CASE(a_waiter_gets_what_is_released) {
  auto first = a.acquire("w");
  BOOST_TEST_REQUIRE(first.ok());
  auto second
    = std::async(std::launch::async, [&] { return a.acquire("w", waiting()); });
  how->wait_for(backend::op_kind::acquire, 2);
  BOOST_TEST(first->release(exit_mode::finished).ok());
  auto got = get(second);
  BOOST_TEST_REQUIRE(got.ok());
  BOOST_TEST((got->found().exit == exit_mode::finished));
}

// contract 22
BOOST_AUTO_TEST_CASE(a_call_that_is_cancelled_already_leaves_nothing_behind) {
  stop.request_stop();
  BOOST_TEST(a.acquire("w", waiting(stop.get_token())).matches(ec::cancelled));
  blocking::run_options run;
  run.stop = stop.get_token();
  BOOST_TEST(a.run("w", never(), run).matches(ec::cancelled));
  blocking::elect_options elect;
  elect.stop = stop.get_token();
  BOOST_TEST(a.elect("w", never(), elect).matches(ec::cancelled));
  BOOST_TEST(calls == 0);
  BOOST_TEST(!row("w").has_value());
}

// contract 32
BOOST_AUTO_TEST_CASE(a_stop_ends_the_wait_at_once) {
  auto first = b.acquire("w");
  BOOST_TEST_REQUIRE(first.ok());
  auto second = std::async(std::launch::async, [&] {
    return a.acquire("w", waiting(stop.get_token()));
  });
  how->wait_for(backend::op_kind::acquire, 1);
  stop.request_stop();
  auto got = get(second);
  BOOST_TEST(got.matches(ec::cancelled));
  BOOST_TEST(!got.matches(ec::lease_held));
}

// contract 22, 32: also with a store that says nothing
BOOST_AUTO_TEST_CASE(a_stop_does_not_wait_for_the_store) {
  how->set_hang(true);
  auto call = std::async(std::launch::async, [&] {
    return a.acquire("w", waiting(stop.get_token()));
  });
  how->wait_for(backend::op_kind::acquire, 1);
  stop.request_stop();
  BOOST_TEST(get(call).matches(ec::cancelled));
  how->set_hang(false);
  // What came too late is given back.
  how->wait_for(backend::op_kind::release, 1);
  seen->released.wait();
  BOOST_TEST(b.acquire("w").ok());
}

BOOST_AUTO_TEST_CASE(a_timeout_ends_the_wait) {
  auto first = b.acquire("w");
  BOOST_TEST_REQUIRE(first.ok());
  auto late = waiting();
  late.timeout = 20ms;
  BOOST_TEST(a.acquire("w", late).matches(ec::deadline_exceeded));
}

// contract 21
BOOST_AUTO_TEST_CASE(a_store_that_is_down_is_the_answer) {
  auto held = a.acquire("v");
  BOOST_TEST_REQUIRE(held.ok());
  how->set_refuse(ec::unavailable);
  auto got = a.acquire("w", waiting());
  BOOST_TEST(got.matches(ec::unavailable));
  BOOST_TEST(!got.matches(ec::lease_held));
  BOOST_TEST(held->checkpoint("x").matches(ec::unavailable));
  BOOST_TEST(held->read().matches(ec::unavailable));
  BOOST_TEST(a.run("w", never()).matches(ec::unavailable));
  BOOST_TEST(calls == 0);
  BOOST_TEST(held->held());
}

BOOST_AUTO_TEST_CASE(a_silent_store_hangs_no_call_for_ever) {
  auto quick = options("x");
  quick.store_timeout = 50ms;
  blocking::client c{store(), quick};
  auto held = c.acquire("v");
  BOOST_TEST_REQUIRE(held.ok());
  how->set_hang(true);
  auto started = std::chrono::steady_clock::now();
  auto one = std::async(std::launch::async, [&] { return c.acquire("w"); });
  auto two
    = std::async(std::launch::async, [&] { return held->checkpoint("x"); });
  auto three
    = std::async(std::launch::async, [&] { return c.run("u", never()); });
  auto failed_well = [](ec x) {
    return x == ec::unknown_outcome || x == ec::deadline_exceeded
           || x == ec::unavailable;
  };
  BOOST_TEST(failed_well(get(one).why().code));
  BOOST_TEST(failed_well(get(two).why().code));
  BOOST_TEST(failed_well(get(three).why().code));
  auto took = std::chrono::steady_clock::now() - started;
  BOOST_TEST((took < patience / 2));
  // The store's session must come back before the client can end.
  how->set_hang(false);
}

// -- a lease ------------------------------------------------------------------

// contract 16, 38, 42, 43, 48, 49, 64
BOOST_AUTO_TEST_CASE(a_released_lease_hands_over_its_state) {
  auto first = a.acquire("w");
  BOOST_TEST_REQUIRE(first.ok());
  BOOST_TEST(first->checkpoint("half").ok());
  BOOST_TEST(first->read()->state.value() == "half");
  BOOST_TEST(first->renew().ok());
  BOOST_TEST(first->release(exit_mode::abandoned).ok());
  BOOST_TEST(!first->held());
  BOOST_TEST((first->window_left() == 0s));
  BOOST_TEST((first->why_lost().code == ec::none));
  auto second = b.acquire("w");
  BOOST_TEST_REQUIRE(second.ok());
  BOOST_TEST(second->found().state.value() == "half");
  BOOST_TEST((second->found().exit == exit_mode::abandoned));
  BOOST_TEST(second->found().holder_id == "node-a");
  BOOST_TEST(second->token().number() > first->token().number());
  BOOST_TEST(second->checkpoint(std::nullopt).ok());
  BOOST_TEST(!second->read()->state.has_value());
}

// contract 52, 60, 62, 68, 69
BOOST_AUTO_TEST_CASE(a_release_is_final_and_needs_a_mode) {
  auto got = a.acquire("w");
  BOOST_TEST_REQUIRE(got.ok());
  for (auto mode : {exit_mode::none, exit_mode::expired})
    BOOST_TEST(got->release(mode).matches(ec::invalid_exit_mode));
  BOOST_TEST(got->held());
  BOOST_TEST(how->count(backend::op_kind::release) == 0u);
  BOOST_TEST(got->release(exit_mode::retired).ok());
  BOOST_TEST(got->release(exit_mode::finished).matches(ec::lease_expired));
  BOOST_TEST(got->checkpoint("late").matches(ec::lease_expired));
  BOOST_TEST(got->renew().matches(ec::lease_expired));
  BOOST_TEST((exit_of("w") == exit_mode::retired));
}

// contract 40, 41, 71-75
BOOST_AUTO_TEST_CASE(a_forgotten_lease_leaves_nothing) {
  auto got = a.acquire("w");
  BOOST_TEST_REQUIRE(got.ok());
  BOOST_TEST(got->checkpoint("x").ok());
  BOOST_TEST(got->forget().ok());
  BOOST_TEST(!got->held());
  BOOST_TEST(!row("w").has_value());
  BOOST_TEST(got->forget().matches(ec::fenced));
  BOOST_TEST(got->checkpoint("x").matches(ec::fenced));
  BOOST_TEST(got->release(exit_mode::finished).matches(ec::fenced));
  BOOST_TEST(a.read(got->token()).matches(ec::fenced));
  auto next = b.acquire("w");
  BOOST_TEST_REQUIRE(next.ok());
  BOOST_TEST((next->found() == prior{}));
  BOOST_TEST(next->token().number() > got->token().number());
}

// contract 38, 45
BOOST_AUTO_TEST_CASE(anybody_with_the_token_can_read) {
  auto got = a.acquire("w");
  BOOST_TEST_REQUIRE(got.ok());
  BOOST_TEST(got->checkpoint("x").ok());
  BOOST_TEST(b.read(got->token())->state.value() == "x");
  BOOST_TEST(got->release(exit_mode::finished).ok());
  BOOST_TEST(b.read(got->token())->state.value() == "x");
}

// contract 92, 95, 118
BOOST_AUTO_TEST_CASE(a_lease_is_kept_alive) {
  auto c = brief(1s);
  auto got = c.acquire("w");
  BOOST_TEST_REQUIRE(got.ok());
  seen->renewed.wait(2);
  BOOST_TEST(got->held());
  BOOST_TEST(b.acquire("w").matches(ec::lease_held));
}

// contract 15, 102
BOOST_AUTO_TEST_CASE(a_lease_that_nobody_renews_runs_out) {
  auto c = brief(200ms);
  event told;
  blocking::acquire_options once;
  once.managed = false;
  once.on_lost = [&](const blocking::failure& why) {
    if (why.matches(ec::lease_window_exhausted))
      told.happen();
  };
  auto got = c.acquire("w", once);
  BOOST_TEST_REQUIRE(got.ok());
  BOOST_TEST((got->wait_lost().code == ec::lease_window_exhausted));
  told.wait();
  BOOST_TEST(!got->held());
  BOOST_TEST(got->stop_requested());
  BOOST_TEST(!got->keep().ok());
  BOOST_TEST(got->checkpoint("late").matches(ec::lease_window_exhausted));
  auto next = b.acquire("w", waiting());
  BOOST_TEST_REQUIRE(next.ok());
  BOOST_TEST((next->found().exit == exit_mode::expired));
  BOOST_TEST(seen->renewed.count() == 0);
}

BOOST_AUTO_TEST_CASE(a_lease_can_be_kept_later) {
  auto c = brief(1s);
  blocking::acquire_options once;
  once.managed = false;
  auto got = c.acquire("w", once);
  BOOST_TEST_REQUIRE(got.ok());
  BOOST_TEST(got->keep().ok());
  seen->renewed.wait(2);
  BOOST_TEST(got->held());
  // Harmless where it is kept already.
  BOOST_TEST(got->keep().ok());
  seen->renewed.wait(3);
  BOOST_TEST(got->held());
}

// contract 50, 58, 106, 115
BOOST_AUTO_TEST_CASE(a_fenced_holder_is_told_and_woken) {
  auto c = brief();
  event told;
  blocking::acquire_options options_with_ear;
  options_with_ear.on_lost = [&](const blocking::failure& why) {
    if (why.matches(ec::fenced))
      told.happen();
  };
  auto got = c.acquire("w", options_with_ear);
  BOOST_TEST_REQUIRE(got.ok());
  auto paused
    = std::async(std::launch::async, [&] { return got->wait_for(patience); });
  steal(got->token());
  BOOST_TEST((got->wait_lost().code == ec::fenced));
  BOOST_TEST(!get(paused));
  told.wait();
  BOOST_TEST(!got->held());
  BOOST_TEST((got->why_lost().code == ec::fenced));
  BOOST_TEST(got->checkpoint("late").matches(ec::fenced));
  BOOST_TEST(got->renew().matches(ec::fenced));
  BOOST_TEST(got->release(exit_mode::finished).matches(ec::fenced));
  BOOST_TEST(told.count() == 1);
  BOOST_TEST(row("w")->holder_id == "thief");
}

// contract 110, 111
BOOST_AUTO_TEST_CASE(stopping_renewal_is_no_loss) {
  std::atomic<bool> told{false};
  blocking::acquire_options with_ear;
  with_ear.on_lost = [&](const blocking::failure&) { told = true; };
  auto got = a.acquire("w", with_ear);
  BOOST_TEST_REQUIRE(got.ok());
  auto watching
    = std::async(std::launch::async, [&] { return got->wait_lost(); });
  got->stop_renewal();
  got->stop_renewal();
  BOOST_TEST((get(watching).code == ec::none));
  BOOST_TEST(got->held());
  BOOST_TEST((got->why_lost().code == ec::none));
  BOOST_TEST(got->checkpoint("still mine").ok());
  BOOST_TEST(got->release(exit_mode::finished).ok());
  BOOST_TEST(!told);
}

BOOST_AUTO_TEST_CASE(a_pause_lasts_although_renewal_was_stopped) {
  auto got = a.acquire("w");
  BOOST_TEST_REQUIRE(got.ok());
  got->stop_renewal();
  auto before = std::chrono::steady_clock::now();
  BOOST_TEST(got->wait_for(50ms));
  BOOST_TEST((std::chrono::steady_clock::now() - before >= 50ms));
}

BOOST_AUTO_TEST_CASE(a_pool_ends_with_its_client) {
  auto c = std::make_unique<blocking::client>(store(), options("node-c"));
  std::promise<void> started;
  auto working = [&](blocking::work_context& job) {
    started.set_value();
    while (job.wait_for(1h)) {
    }
    return blocking::stopped();
  };
  auto running = std::async(std::launch::async, [&, client = c.get()] {
    return client->run_pool({"w"}, working, {});
  });
  auto ready = started.get_future();
  get(ready);
  c.reset();
  BOOST_TEST(get(running).matches(ec::cancelled));
}

// contract 112, 120
BOOST_AUTO_TEST_CASE(a_stopped_lease_lapses) {
  auto c = brief(300ms);
  auto got = c.acquire("w");
  BOOST_TEST_REQUIRE(got.ok());
  got->stop_renewal();
  auto next = b.acquire("w", waiting());
  BOOST_TEST_REQUIRE(next.ok());
  BOOST_TEST((next->found().exit == exit_mode::expired));
  got->stop_renewal();
  BOOST_TEST(!got->held());
}

// contract 15, 121
BOOST_AUTO_TEST_CASE(a_lease_that_goes_out_of_scope_lapses) {
  auto c = brief(300ms);
  BOOST_TEST(c.acquire("w").ok());
  auto next = b.acquire("w", waiting());
  BOOST_TEST_REQUIRE(next.ok());
  BOOST_TEST((next->found().exit == exit_mode::expired));
  BOOST_TEST(how->count(backend::op_kind::release) == 0u);
}

BOOST_AUTO_TEST_CASE(waits_for_a_loss_end_with_their_stop) {
  auto got = a.acquire("w", waiting(stop.get_token()));
  BOOST_TEST_REQUIRE(got.ok());
  auto watching = std::async(std::launch::async,
                             [&] { return got->wait_lost(stop.get_token()); });
  auto paused
    = std::async(std::launch::async, [&] { return got->wait_for(patience); });
  stop.request_stop();
  BOOST_TEST((get(watching).code == ec::none));
  BOOST_TEST(!get(paused));
  BOOST_TEST(got->stop_requested());
  BOOST_TEST(got->held());
}

BOOST_AUTO_TEST_CASE(a_lease_moves) {
  auto got = a.acquire("w");
  BOOST_TEST_REQUIRE(got.ok());
  auto mine = std::move(got).value();
  BOOST_TEST(mine.held());
  blocking::held_lease none;
  BOOST_TEST(!none.held());
  BOOST_TEST(none.token().empty());
  BOOST_TEST(none.renew().matches(ec::invalid_argument));
  BOOST_TEST((none.wait_lost().code == ec::none));
  none = std::move(mine);
  BOOST_TEST(none.checkpoint("x").ok());
  BOOST_TEST(none.release(exit_mode::finished).ok());
}

// -- the end of a client ------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_lease_outlives_its_client) {
  std::optional<blocking::client> c{brief(30s)};
  auto got = c->acquire("w");
  BOOST_TEST_REQUIRE(got.ok());
  auto watching
    = std::async(std::launch::async, [&] { return got->wait_lost(); });
  c.reset();
  BOOST_TEST((get(watching).code == ec::none));
  BOOST_TEST(got->renew().matches(ec::cancelled));
  BOOST_TEST(got->release(exit_mode::finished).matches(ec::cancelled));
  got->stop_renewal();
}

BOOST_AUTO_TEST_CASE(the_end_of_a_client_ends_its_calls) {
  auto first = b.acquire("w");
  BOOST_TEST_REQUIRE(first.ok());
  std::optional<blocking::client> c{brief(30s)};
  auto second = std::async(std::launch::async,
                           [&] { return c->acquire("w", waiting()); });
  how->wait_for(backend::op_kind::acquire, 1);
  c.reset();
  BOOST_TEST(get(second).matches(ec::cancelled));
}

// What CAF keeps for a thread must not keep the client.
BOOST_AUTO_TEST_CASE(threads_outlive_the_clients_that_they_made_and_used) {
  std::optional<blocking::client> c;
  event made, used, gone;
  auto maker = std::async(std::launch::async, [&] {
    c = brief(30s);
    made.happen();
    gone.wait();
  });
  made.wait();
  auto user = std::async(std::launch::async, [&] {
    auto good = c->acquire("w").ok() && c->run("v", never()).ok()
                && c->elect("v", never()).ok()
                && c->run_pool({"u"}, [](auto&) { return retired(); }).ok()
                && c->sweep(1h).ok();
    used.happen();
    gone.wait();
    return good;
  });
  used.wait();
  c.reset();
  gone.happen();
  BOOST_TEST(get(user));
  get(maker);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(blocking_run_suite, fixture)

// contract 127, 128, 135, 148, 149
BOOST_AUTO_TEST_CASE(two_runs_in_a_row_hand_over) {
  auto first = a.run("w", [](blocking::work_context& job) {
    if (job.token().work_id() != "w" || job.found() != prior{}
        || job.stop_requested() || job.window_left() <= 0s
        || !job.wait_for(1us))
      return blocking::failed_for_good("a strange start");
    return job.checkpoint("half").ok() ? succeeded("one") : failed("no store");
  });
  BOOST_TEST_REQUIRE(first.ok());
  BOOST_TEST((first->exit == exit_mode::finished));
  BOOST_TEST(first->number == row("w")->number);
  std::optional<prior> found;
  auto second = a.run("w", [&](blocking::work_context& job) {
    found = job.found();
    return succeeded();
  });
  BOOST_TEST(second.ok());
  BOOST_TEST((found->exit == exit_mode::finished));
  BOOST_TEST(found->state.value() == "one");
  // contract 135: no state leaves the stored one as it was
  BOOST_TEST(row("w")->state.value() == "one");
  BOOST_TEST(a.run("w", [](auto&) { return succeeded(""); }).ok());
  BOOST_TEST(!row("w")->state.has_value());
}

BOOST_AUTO_TEST_CASE(work_runs_on_the_thread_that_called) {
  std::thread::id ran;
  BOOST_TEST(a.run("w",
                   [&](blocking::work_context&) {
                     ran = std::this_thread::get_id();
                     return succeeded();
                   })
               .ok());
  BOOST_TEST((ran == std::this_thread::get_id()));
}

// contract 129, 130
BOOST_AUTO_TEST_CASE(the_result_decides_the_exit) {
  auto done = a.run("v", [](auto&) { return retired("all"); });
  BOOST_TEST_REQUIRE(done.ok());
  BOOST_TEST((done->exit == exit_mode::retired));
  BOOST_TEST(row("v")->state.value() == "all");
  auto bad = a.run("w", [](auto&) { return failed("no disk", "half"); });
  BOOST_TEST(bad.matches(ec::work_failed));
  BOOST_TEST(bad.why().detail == "no disk");
  BOOST_TEST((exit_of("w") == exit_mode::abandoned));
  BOOST_TEST(row("w")->state.value() == "half");
}

// contract 122, 124
BOOST_AUTO_TEST_CASE(what_cannot_run_is_refused) {
  auto none = a.run("w", nullptr);
  BOOST_TEST(none.matches(ec::worker_work_fn_required));
  BOOST_TEST(none.matches(ec::config_invalid));
  auto held = b.acquire("w");
  BOOST_TEST_REQUIRE(held.ok());
  BOOST_TEST(a.run("w", never()).matches(ec::lease_held));
  BOOST_TEST(calls == 0);
  BOOST_TEST(held->held());
}

// contract 147
BOOST_AUTO_TEST_CASE(two_runs_at_a_time_of_one_unit_are_one) {
  auto inner = a.run("w", [&](blocking::work_context&) {
    BOOST_TEST(a.run("w", never()).matches(ec::lease_held));
    // Another unit is another matter.
    BOOST_TEST(a.run("v", never()).ok());
    return succeeded();
  });
  BOOST_TEST(inner.ok());
  BOOST_TEST(calls == 1);
}

// contract 145 and A16 of its decisions
BOOST_AUTO_TEST_CASE(an_exception_reaches_the_caller_and_releases_nothing) {
  struct oops {
    int number;
  };

  auto c = brief(300ms);
  int caught = 0;
  try {
    (void)c.run("w", [](blocking::work_context& job) -> blocking::work_result {
      (void)job.checkpoint("half");
      throw oops{7};
    });
  } catch (const oops& x) {
    caught = x.number;
  }
  BOOST_TEST(caught == 7);
  BOOST_TEST((exit_of("w") == exit_mode::none));
  // It lapses although the client lives: renewal was stopped.
  auto next = b.acquire("w", waiting());
  BOOST_TEST_REQUIRE(next.ok());
  BOOST_TEST((next->found().exit == exit_mode::expired));
  BOOST_TEST(next->found().state.value() == "half");
  BOOST_TEST(how->count(backend::op_kind::release) == 0u);
}

// contract 131, 133
BOOST_AUTO_TEST_CASE(a_fenced_run_stores_nothing) {
  auto c = brief();
  auto got = c.run("w", [&](blocking::work_context& job) {
    steal(job.token());
    job.wait_for(patience);
    if (!job.stop_requested() || job.window_left() != 0s
        || !job.checkpoint("late").matches(ec::fenced))
      return failed("it was not told");
    return retired("late");
  });
  BOOST_TEST(got.matches(ec::fenced));
  BOOST_TEST(row("w")->holder_id == "thief");
  BOOST_TEST(!row("w")->state.has_value());
}

// contract 137, 146
BOOST_AUTO_TEST_CASE(a_stopped_run_ends_as_its_work_says) {
  blocking::run_options options_with_stop;
  options_with_stop.stop = stop.get_token();
  auto got = a.run(
    "w",
    [&](blocking::work_context& job) {
      stop.request_stop();
      return job.wait_for(patience) ? failed("not woken")
                                    : blocking::stopped("so far");
    },
    options_with_stop);
  BOOST_TEST(got.matches(ec::cancelled));
  BOOST_TEST((exit_of("w") == exit_mode::abandoned));
  BOOST_TEST(row("w")->state.value() == "so far");
  std::stop_source other;
  options_with_stop.stop = other.get_token();
  got = a.run(
    "w",
    [&](blocking::work_context& job) {
      other.request_stop();
      job.wait_for(patience);
      return succeeded("in time");
    },
    options_with_stop);
  BOOST_TEST(got.ok());
  BOOST_TEST((exit_of("w") == exit_mode::finished));
}

// contract 32
BOOST_AUTO_TEST_CASE(a_stop_ends_the_wait_of_a_run) {
  auto held = b.acquire("w");
  BOOST_TEST_REQUIRE(held.ok());
  blocking::run_options patient;
  patient.wait = true;
  patient.poll = 1h;
  patient.stop = stop.get_token();
  auto call = std::async(std::launch::async,
                         [&] { return a.run("w", never(), patient); });
  how->wait_for(backend::op_kind::acquire, 1);
  stop.request_stop();
  BOOST_TEST(get(call).matches(ec::cancelled));
  BOOST_TEST(calls == 0);
}

// contract 22, 70: what nobody waits for any more is given back as it was
BOOST_AUTO_TEST_CASE(a_stopped_run_leaves_retired_work_retired) {
  BOOST_TEST(b.run("w", [](auto&) { return retired("all"); }).ok());
  seen->released.wait(1);
  how->set_hang(true);
  blocking::run_options with_stop;
  with_stop.stop = stop.get_token();
  auto call = std::async(std::launch::async,
                         [&] { return a.run("w", never(), with_stop); });
  how->wait_for(backend::op_kind::acquire, 1);
  stop.request_stop();
  BOOST_TEST(get(call).matches(ec::cancelled));
  how->set_hang(false);
  seen->released.wait(2);
  BOOST_TEST(calls == 0);
  auto next = b.acquire("w");
  BOOST_TEST_REQUIRE(next.ok());
  BOOST_TEST((next->found().exit == exit_mode::retired));
  BOOST_TEST(next->found().state.value() == "all");
}

// contract 138, 139
BOOST_AUTO_TEST_CASE(a_silent_store_ends_a_run_at_the_cleanup_limit) {
  blocking::run_options quick;
  quick.cleanup = 50ms;
  auto got = a.run(
    "w",
    [&](auto&) {
      how->set_hang(true);
      return succeeded("end");
    },
    quick);
  BOOST_TEST(got.matches(ec::deadline_exceeded));
  how->set_hang(false);
}

BOOST_AUTO_TEST_CASE(the_end_of_a_client_ends_its_runs) {
  std::optional<blocking::client> c{brief(30s)};
  event started;
  auto call = std::async(std::launch::async, [&] {
    return c->run("w", [&](blocking::work_context& job) {
      started.happen();
      job.wait_for(patience);
      return blocking::stopped();
    });
  });
  started.wait();
  c.reset();
  BOOST_TEST(!get(call).ok());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(blocking_elect_suite, fixture)

namespace {

struct campaign {
  std::vector<std::string> events;
  blocking::elect_options options;

  campaign() {
    options.on_elected = [this](const token& tok, const prior&) {
      events.push_back("elected " + tok.work_id());
    };
    options.on_lost = [this](const token&, const blocking::failure& why) {
      events.push_back("lost " + to_string(why.code));
    };
    options.on_relinquished = [this](const token&, exit_mode mode) {
      events.push_back("relinquished " + to_string(mode));
    };
  }

  void check(std::vector<std::string> want) {
    BOOST_TEST(events == want, boost::test_tools::per_element());
  }
};

} // namespace

// contract 160, 162, 165
BOOST_AUTO_TEST_CASE(a_leader_is_told_before_and_after) {
  campaign x;
  auto got = a.elect(
    "boss",
    [&](blocking::work_context& job) {
      x.events.push_back("leads");
      return job.stop_requested() ? failed("why?") : succeeded();
    },
    x.options);
  BOOST_TEST_REQUIRE(got.ok());
  BOOST_TEST((got->exit == exit_mode::finished));
  x.check({"elected boss", "leads", "relinquished finished"});
  // Callbacks are optional.
  BOOST_TEST(a.elect("boss", [](auto&) { return retired(); }).ok());
}

// contract 150
BOOST_AUTO_TEST_CASE(an_election_needs_a_function) {
  auto got = a.elect("boss", nullptr);
  BOOST_TEST(got.matches(ec::leader_fn_required));
  BOOST_TEST(got.matches(ec::config_invalid));
  BOOST_TEST(how->seen.empty());
}

// contract 151, 152, 163
BOOST_AUTO_TEST_CASE(who_is_not_elected_answers_late) {
  auto boss = b.acquire("boss");
  BOOST_TEST_REQUIRE(boss.ok());
  campaign x;
  x.options.idle = 30ms;
  auto began = std::chrono::steady_clock::now();
  auto got = a.elect("boss", never(), x.options);
  BOOST_TEST((std::chrono::steady_clock::now() - began >= 30ms));
  BOOST_TEST(got.matches(ec::lease_held));
  BOOST_TEST(calls == 0);
  x.check({});
}

// contract 158, 159
BOOST_AUTO_TEST_CASE(a_stop_ends_the_wait_for_an_election) {
  auto boss = b.acquire("boss");
  BOOST_TEST_REQUIRE(boss.ok());
  campaign x;
  x.options.wait = true;
  x.options.poll = 1h;
  x.options.backoff = 1h;
  x.options.stop = stop.get_token();
  auto call = std::async(std::launch::async,
                         [&] { return a.elect("boss", never(), x.options); });
  how->wait_for(backend::op_kind::acquire, 1);
  stop.request_stop();
  BOOST_TEST(get(call).matches(ec::cancelled));
  x.check({});
}

// contract 155, 158, 166 and A7 of its decisions
BOOST_AUTO_TEST_CASE(a_stop_ends_the_pause_and_changes_no_answer) {
  campaign x;
  x.options.backoff = 1h;
  x.options.stop = stop.get_token();
  auto call = std::async(std::launch::async, [&] {
    return a.elect(
      "boss", [](auto&) { return failed("no luck"); }, x.options);
  });
  seen->released.wait();
  BOOST_TEST((call.wait_for(20ms) == std::future_status::timeout));
  stop.request_stop();
  BOOST_TEST(get(call).matches(ec::work_failed));
  x.check({"elected boss"});
}

// contract 156, 164
BOOST_AUTO_TEST_CASE(a_fenced_leader_is_told_at_once) {
  auto c = brief();
  campaign x;
  x.options.backoff = 1h;
  auto got = c.elect(
    "boss",
    [&](blocking::work_context& job) {
      steal(job.token());
      job.wait_for(patience);
      return succeeded();
    },
    x.options);
  BOOST_TEST(got.matches(ec::fenced));
  x.check({"elected boss", "lost fenced"});
}

// contract 169
BOOST_AUTO_TEST_CASE(a_leader_that_throws_releases_nothing) {
  campaign x;
  auto lead = [](blocking::work_context&) -> blocking::work_result {
    throw std::runtime_error("boom");
  };
  BOOST_CHECK_THROW((void)a.elect("boss", lead, x.options), std::runtime_error);
  BOOST_TEST((exit_of("boss") == exit_mode::none));
  BOOST_TEST(how->count(backend::op_kind::release) == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(blocking_pool_suite, fixture)

namespace {

struct pool_events : pool_observer {
  event backoff;
  event stuck;

  void on_slot_backoff(std::string_view, const token&, ec, std::string_view,
                       duration) override {
    backoff.happen();
  }

  void on_slot_stuck(const token&, duration) override {
    stuck.happen();
  }
};

} // namespace

// contract 172
BOOST_AUTO_TEST_CASE(a_pool_that_cannot_work_is_refused) {
  auto check = [](const auto& got, ec code) {
    BOOST_TEST(got.matches(code));
    BOOST_TEST(got.matches(ec::config_invalid));
    BOOST_TEST(got.matches(ec::pool_config_invalid));
  };
  check(a.run_pool({}, never()), ec::pool_empty_work_ids);
  check(a.run_pool({"u", ""}, never()), ec::pool_empty_work_id);
  check(a.run_pool({"u", "u"}, never()), ec::pool_duplicate_work_id);
  check(a.run_pool({"u"}, nullptr), ec::pool_work_fn_required);
  BOOST_TEST(how->seen.empty());
}

// contract 174-176, 183, 189
BOOST_AUTO_TEST_CASE(a_pool_runs_all_units_until_they_have_ended) {
  auto got = a.run_pool({"u", "v", "w"}, [&](blocking::work_context& job) {
    ++calls;
    return job.token().work_id() == "w" ? blocking::failed_for_good("never")
                                        : retired(job.token().work_id());
  });
  BOOST_TEST_REQUIRE(got.ok());
  BOOST_TEST(got->retired == 2u);
  BOOST_TEST(got->dead == 1u);
  BOOST_TEST(calls == 3);
  BOOST_TEST(row("v")->state.value() == "v");
}

// contract 184, 188
BOOST_AUTO_TEST_CASE(a_pool_whose_units_are_all_dead_has_failed) {
  auto got = a.run_pool(
    {"u", "v"}, [](auto&) { return blocking::failed_for_good("never"); });
  BOOST_TEST(got.matches(ec::pool_all_slots_dead));
}

// contract 174, 190, 192
BOOST_AUTO_TEST_CASE(a_stopped_pool_stores_and_releases) {
  event started;
  blocking::pool_options with_stop;
  with_stop.stop = stop.get_token();
  auto call = std::async(std::launch::async, [&] {
    return a.run_pool(
      {"u", "v"},
      [&](blocking::work_context& job) {
        started.happen();
        job.wait_for(patience);
        return blocking::stopped("so far");
      },
      with_stop);
  });
  started.wait(2);
  stop.request_stop();
  BOOST_TEST(get(call).ok());
  BOOST_TEST((exit_of("u") == exit_mode::abandoned));
  BOOST_TEST(row("v")->state.value() == "so far");
  BOOST_TEST(b.acquire("u").ok());
  // And a stop that came first starts nothing.
  BOOST_TEST(a.run_pool({"x"}, never(), with_stop).ok());
  BOOST_TEST(calls == 0);
}

// contract 179, 193
BOOST_AUTO_TEST_CASE(a_stop_ends_the_pauses_of_a_pool) {
  auto log = std::make_shared<pool_events>();
  blocking::pool_options slow;
  slow.backoff = 1h;
  slow.idle = 1h;
  slow.observer = log;
  slow.stop = stop.get_token();
  auto held = b.acquire("v");
  BOOST_TEST_REQUIRE(held.ok());
  auto call = std::async(std::launch::async, [&] {
    return a.run_pool(
      {"u", "v"},
      [](auto&) -> blocking::work_result { throw std::runtime_error("boom"); },
      slow);
  });
  log->backoff.wait();
  stop.request_stop();
  BOOST_TEST(get(call).ok());
  // contract 145
  BOOST_TEST((exit_of("u") == exit_mode::none));
}

BOOST_AUTO_TEST_CASE(a_pool_returns_when_its_functions_have) {
  auto log = std::make_shared<pool_events>();
  blocking::pool_options quick;
  quick.grace = 1ms;
  quick.observer = log;
  quick.stop = stop.get_token();
  event started, let_go;
  auto call = std::async(std::launch::async, [&] {
    return a.run_pool(
      {"u"},
      [&](auto&) {
        started.happen();
        let_go.wait();
        return succeeded();
      },
      quick);
  });
  started.wait();
  stop.request_stop();
  log->stuck.wait();
  BOOST_TEST((call.wait_for(20ms) == std::future_status::timeout));
  let_go.happen();
  BOOST_TEST(get(call).ok());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(blocking_sweep_suite, fixture)

namespace {

struct sweep_events : vacuum_observer {
  std::atomic<int> count{0};

  void on_sweep(duration, bool, std::uint64_t, const result_info&) override {
    ++count;
  }
};

} // namespace

// contract 213, 224-227, 229
BOOST_AUTO_TEST_CASE(sweeps_what_is_done_for_good_and_old) {
  auto log = std::make_shared<sweep_events>();
  auto with_ear = options("x");
  with_ear.sweep_observer = log;
  blocking::client c{store(), with_ear};
  auto bad = c.sweep(0s);
  BOOST_TEST(bad.matches(ec::retention_required));
  BOOST_TEST(bad.matches(ec::config_invalid));
  BOOST_TEST(log->count == 0);
  BOOST_TEST(c.run("old", [](auto&) { return retired(); }).ok());
  BOOST_TEST(c.run("again", [](auto&) { return succeeded(); }).ok());
  BOOST_TEST(c.acquire("lapsed").ok());
  BOOST_TEST(c.sweep(1h).value() == 0u);
  skew_us += duration{2h}.count();
  BOOST_TEST(c.sweep(1h).value() == 1u);
  BOOST_TEST(!row("old").has_value());
  BOOST_TEST(c.sweep(1h, true).value() == 1u);
  BOOST_TEST(!row("lapsed").has_value());
  BOOST_TEST(row("again").has_value());
  BOOST_TEST(log->count == 3);
}

BOOST_AUTO_TEST_SUITE_END()
