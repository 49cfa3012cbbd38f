// SPDX-License-Identifier: Apache-2.0
//
// Worker functions block a thread of their own, so these cases run on real
// threads and real time. They wait for events, never for a time to pass.
#include "leasehold/backend/memory.hpp"
#include "leasehold/backend_actor.hpp"
#include "leasehold/codec/binary.hpp"
#include "leasehold/codec/work.hpp"
#include "leasehold/leader.hpp"
#include "leasehold/lease_actor.hpp"
#include "leasehold/pool.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <future>
#include <stdexcept>

using namespace leasehold;
using namespace std::chrono_literals;

namespace {

// Only reached when something is broken.
constexpr auto patience = 20s;

struct fixture {
  config_base<caf::id_block::leasehold> cfg;
  caf::actor_system sys{cfg};
  backend::memory_store data;
  backend_actor store = spawn_backend(sys, data.share());
  lease_actor lease;
  pool_actor pool;
  std::promise<caf::error> ended;

  explicit fixture(duration ttl = 30s) {
    lease_options options;
    options.holder_id = "node-a";
    options.ttl = ttl;
    lease = *spawn_lease(sys, store, options);
  }

  ~fixture() {
    for (auto& hdl :
         {caf::actor_cast<caf::actor>(pool), caf::actor_cast<caf::actor>(lease),
          caf::actor_cast<caf::actor>(store)})
      if (hdl)
        caf::anon_send_exit(hdl, caf::exit_reason::user_shutdown);
  }

  void run(work_function fn) {
    pool_options options;
    options.lease = lease;
    options.work_ids = {"w"};
    options.work = run_function(std::move(fn));
    options.timing.backoff = 1h;
    pool = *spawn_pool(sys, options);
    sys.spawn([this](caf::event_based_actor* self) {
      post(self, run_pool{})
        .request(pool, caf::infinite)
        .then([this](const pool_result&) { ended.set_value({}); },
              [this](const caf::error& err) { ended.set_value(err); });
      return caf::behavior{[](int) {}};
    });
  }

  caf::error wait_for_end() {
    auto result = ended.get_future();
    BOOST_TEST_REQUIRE(
      (result.wait_for(patience) == std::future_status::ready));
    return result.get();
  }

  void wait_for_end_or_stop() {
    post_anon(pool, stop_pool{});
    (void)wait_for_end();
  }

  backend::row row() {
    backend::list_query query;
    query.work_id = "w";
    query.with_state = true;
    return data.list(query).rows.at(0);
  }
};

struct short_leases : fixture {
  short_leases() : fixture(400ms) {
    // nop
  }
};

struct no_codec {
  codec_result<std::string> encode(int) const {
    return codec_error{ec::invalid_argument, "no"};
  }

  template <class T>
  codec_result<T> decode(std::string_view) const {
    return codec_error{ec::state_unreadable, "no"};
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(function_worker_suite)

// contract 127, 128, 148
BOOST_FIXTURE_TEST_CASE(a_function_stores_progress_and_its_result, fixture) {
  run([](work_context& job) {
    if (job.token().work_id() != "w" || job.found().state
        || job.stop_requested() || job.window_left() <= 0s)
      return failed_for_good("a strange start");
    for (auto step : {"1", "2", "3"})
      if (auto err = job.checkpoint(step))
        return failed_for_good(render(err));
    return retired();
  });
  BOOST_TEST(!wait_for_end());
  BOOST_TEST(row().state.value() == "3");
  BOOST_TEST((row().exit == exit_mode::retired));
}

// contract 199
BOOST_FIXTURE_TEST_CASE(a_function_stores_values_by_a_codec, fixture) {
  run([](work_context& job) {
    auto at = restore<int>(job.found(), codec::binary{});
    if (!at)
      return failed_for_good(render(at.error()));
    while (++*at < 3)
      if (auto err = checkpoint(job, *at, codec::binary{}))
        return failed_for_good(render(err));
    // Refused by the codec, so that nothing is stored.
    if (!matches(checkpoint(job, 4, no_codec{}), ec::invalid_argument))
      return failed_for_good("the codec was not asked");
    return retired();
  });
  BOOST_TEST(!wait_for_end());
  BOOST_TEST((*decode<int>(row().state, codec::binary{}) == 2));
}

// contract 131: the stop flag and the refusal reach a function that blocks
BOOST_FIXTURE_TEST_CASE(a_fenced_function_is_woken_and_refused, short_leases) {
  std::promise<void> started;
  std::promise<std::pair<bool, ec>> seen;
  run([&](work_context& job) {
    started.set_value();
    auto waited = job.wait_for(patience);
    seen.set_value({waited, code_of(job.checkpoint("late"))});
    return failed_for_good("fenced");
  });
  started.get_future().wait();
  auto mine = row();
  auto tok = internal::token_access::make("w", mine.holder_id, mine.number,
                                          mine.expires_us);
  std::vector<backend::operation> ops{
    backend::operation::release(tok, exit_mode::abandoned),
    backend::operation::acquire("w", "thief", 1h)};
  for (auto& got : data.execute(ops))
    BOOST_TEST_REQUIRE(got.ok());
  auto [waited, answer] = seen.get_future().get();
  BOOST_TEST(!waited);
  BOOST_TEST((answer == ec::fenced));
  BOOST_TEST(row().holder_id == "thief");
  BOOST_TEST(!row().state.has_value());
  post_anon(pool, stop_pool{});
  (void)wait_for_end();
}

BOOST_FIXTURE_TEST_CASE(a_pause_may_last_longer_than_a_window, short_leases) {
  using clock = std::chrono::steady_clock;
  std::promise<std::pair<bool, clock::duration>> seen;
  run([&](work_context& job) {
    auto began = clock::now();
    auto waited = job.wait_for(1s);
    seen.set_value({waited, clock::now() - began});
    return retired();
  });
  auto [waited, took] = seen.get_future().get();
  // A machine too busy to renew may lose the lease; then it says so.
  BOOST_TEST((!waited || took >= 1s));
  wait_for_end_or_stop();
}

// contract 137, 190, 192
BOOST_FIXTURE_TEST_CASE(a_stopped_pool_wakes_a_function_that_waits, fixture) {
  std::promise<void> started;
  run([&](work_context& job) {
    started.set_value();
    job.wait_for(patience);
    return work_result{ec::cancelled, "asked to stop", "so far"};
  });
  started.get_future().wait();
  post_anon(pool, stop_pool{});
  BOOST_TEST(!wait_for_end());
  BOOST_TEST((row().exit == exit_mode::abandoned));
  BOOST_TEST(row().state.value() == "so far");
}

// contract 145
BOOST_FIXTURE_TEST_CASE(an_exception_releases_nothing, fixture) {
  std::promise<void> threw;
  run([&](work_context&) -> work_result {
    threw.set_value();
    throw std::runtime_error("boom");
  });
  threw.get_future().wait();
  post_anon(pool, stop_pool{});
  (void)wait_for_end();
  BOOST_TEST((row().exit == exit_mode::none));
}

// contract 131, 164: a thread cannot be killed, but its loss can be told
BOOST_FIXTURE_TEST_CASE(a_function_that_is_left_alone_has_lost, short_leases) {
  struct ear : leader_observer {
    std::promise<ec> lost;

    void on_lost(const token&, ec cause, std::string_view) override {
      lost.set_value(cause);
    }
  };

  auto heard = std::make_shared<ear>();
  std::promise<void> noticed;
  std::promise<void> over;
  leader_options options;
  options.lease = lease;
  options.observer = heard;
  options.grace = 10ms;
  options.work = run_function([&](work_context& job) {
    auto tok = job.token();
    std::vector<backend::operation> ops{
      backend::operation::release(tok, exit_mode::abandoned),
      backend::operation::acquire("w", "thief", 1h)};
    data.execute(ops);
    while (job.wait_for(1h)) {
    }
    noticed.set_value();
    over.get_future().wait(); // Deaf to every wish to stop.
    return succeeded();
  });
  auto leader = *spawn_leader(sys, options);
  std::promise<caf::error> answer;
  auto caller = sys.spawn([&](caf::event_based_actor* self) {
    elect request;
    request.name = "w";
    post(self, request)
      .request(leader, caf::infinite)
      .then([&](const run_result&) { answer.set_value({}); },
            [&](const caf::error& err) { answer.set_value(err); });
    return caf::behavior{[](int) {}};
  });
  noticed.get_future().wait();
  post_anon(leader, resign{});
  auto got = answer.get_future();
  BOOST_TEST_REQUIRE((got.wait_for(patience) == std::future_status::ready));
  auto cause = heard->lost.get_future();
  BOOST_TEST_REQUIRE((cause.wait_for(patience) == std::future_status::ready));
  // On a machine too busy to renew, the window may be over first.
  auto why = code_of(got.get());
  BOOST_TEST((why == ec::fenced || why == ec::lease_window_exhausted));
  BOOST_TEST((cause.get() == why));
  over.set_value();
  caf::anon_send_exit(caller, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(leader, caf::exit_reason::user_shutdown);
}

BOOST_AUTO_TEST_SUITE_END()
