// SPDX-License-Identifier: Apache-2.0
#include "leasehold/backend_actor.hpp"
#include "leasehold/router.hpp"

#include "support/lease_world.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;
using namespace std::chrono_literals;

namespace {

struct fixture : test::lease_world {
  using script_ptr = std::shared_ptr<test::store_script>;

  backend_actor session(const script_ptr& log) {
    return spawn<internal::backend_serializer>(
      std::make_unique<test::scripted_store>(data.share(), log));
  }

  store_request claim(std::string work_id, actor_time not_after = 0) {
    return {{backend::operation::acquire(std::move(work_id), "a", 30s)},
            not_after};
  }

  actor_time in(caf::actor_clock::duration_type x) {
    auto when = base::now() + x;
    return std::chrono::nanoseconds{when.time_since_epoch()}.count();
  }

  /// A client that sends one request and counts the good outcomes.
  void send(const backend_actor& to, store_request request) {
    spawn_fn([this, to, request](caf::event_based_actor* me) {
      post(me, request)
        .request(to, 1min)
        .then(
          [this](const store_reply& reply) {
            for (auto& got : reply.outcomes) {
              ++answers;
              granted += got.ok() ? 1 : 0;
              last = got;
            }
          },
          [this](const caf::error&) { ++failures; });
      return caf::behavior{[](int) {}};
    });
  }

  int answers = 0;
  int granted = 0;
  int failures = 0;
  backend::outcome last;
};

/// A store that breaks its promise not to throw.
struct throwing_store : backend::store {
  std::vector<backend::outcome>
  execute(std::span<const backend::operation>) override {
    throw std::runtime_error("driver bug: password=hunter2");
  }

  backend::listing list(const backend::list_query&) override {
    return {};
  }

  backend::sweep_result sweep(const backend::sweep_query&) override {
    return {};
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(backend_actor_suite, fixture)

BOOST_AUTO_TEST_CASE(what_has_queued_up_shares_one_call) {
  auto aut = session(script);
  run();
  for (int i = 0; i < 50; ++i)
    send(aut, claim("w" + std::to_string(i)));
  run();
  BOOST_TEST(granted == 50);
  BOOST_TEST(script->calls == 1);
}

BOOST_AUTO_TEST_CASE(does_not_start_what_is_already_too_late) {
  auto aut = session(script);
  send(aut, claim("w", in(5s)));
  set_time(base::now() + 6s);
  run();
  BOOST_TEST(answers == 1);
  BOOST_TEST((last.code == ec::deadline_exceeded));
  BOOST_TEST(!row_of("w").has_value());
}

// contract 56
BOOST_AUTO_TEST_CASE(a_checkpoint_that_is_too_late_stores_nothing) {
  auto aut = session(script);
  send(aut, claim("w"));
  run();
  auto tok
    = internal::token_access::make("w", "a", last.number, last.expires_us);
  send(aut, {{backend::operation::checkpoint(tok, 30s, "in time")}, in(5s)});
  run();
  BOOST_TEST(last.ok());
  auto before = row_of("w").value();
  send(aut, {{backend::operation::checkpoint(tok, 30s, "too late")}, in(5s)});
  set_time(base::now() + 6s);
  run();
  BOOST_TEST((last.code == ec::deadline_exceeded));
  BOOST_TEST((row_of("w") == before));
}

// A19 of the contract's decisions: a claim that came too late is given back.
BOOST_AUTO_TEST_CASE(gives_back_a_grant_that_came_too_late) {
  auto aut = session(script);
  script->during = [this] { set_time(base::now() + 6s); };
  send(aut, claim("w", in(5s)));
  run();
  BOOST_TEST((last.code == ec::deadline_exceeded));
  BOOST_TEST((row_of("w")->exit == exit_mode::abandoned));
}

BOOST_AUTO_TEST_CASE(a_late_grant_that_is_given_back_leaves_what_it_found) {
  auto aut = session(script);
  send(aut, claim("w"));
  run();
  auto tok
    = internal::token_access::make("w", "a", last.number, last.expires_us);
  send(aut, {{backend::operation::release(tok, exit_mode::retired)}, 0});
  run();
  script->during = [this] { set_time(base::now() + 6s); };
  send(aut, claim("w", in(5s)));
  run();
  BOOST_TEST((last.code == ec::deadline_exceeded));
  BOOST_TEST((row_of("w")->exit == exit_mode::retired));
}

BOOST_AUTO_TEST_CASE(a_store_that_throws_costs_an_unknown_outcome_only) {
  auto aut
    = spawn<internal::backend_serializer>(std::make_unique<throwing_store>());
  send(aut, claim("w"));
  run();
  BOOST_TEST((last.code == ec::unknown_outcome));
  BOOST_TEST(last.detail.find("hunter2") == std::string::npos);
  send(aut, claim("w"));
  run();
  BOOST_TEST(answers == 2);
  BOOST_TEST(failures == 0);
}

BOOST_AUTO_TEST_CASE(a_router_keeps_renewals_and_lists_apart) {
  auto work = std::make_shared<test::store_script>();
  auto renewals = std::make_shared<test::store_script>();
  auto bulk = std::make_shared<test::store_script>();
  auto aut = spawn<internal::router>(
    std::vector<backend_actor>{session(work), session(work)}, session(renewals),
    session(bulk));
  auto a = ask<store_reply>(backend_actor{aut}, claim("a")).outcomes.front();
  auto tok = internal::token_access::make("a", "a", a.number, a.expires_us);
  auto reply = ask<store_reply>(
    backend_actor{aut},
    store_request{{backend::operation::renew(tok, 30s),
                   backend::operation::acquire("b", "a", 30s),
                   backend::operation::read(tok),
                   backend::operation::acquire("c", "a", 30s)},
                  0});
  BOOST_TEST_REQUIRE(reply.outcomes.size() == 4u);
  for (auto& got : reply.outcomes)
    BOOST_TEST(got.ok());
  BOOST_TEST(renewals->seen.size() == 1u);
  BOOST_TEST(work->seen.size() == 4u);
  BOOST_TEST(bulk->seen.empty());
  auto rows = ask<backend::listing>(backend_actor{aut}, list_request{});
  BOOST_TEST(rows.rows.size() == 3u);
}

BOOST_AUTO_TEST_CASE(a_router_sends_one_work_id_to_one_session) {
  auto first = std::make_shared<test::store_script>();
  auto second = std::make_shared<test::store_script>();
  auto aut = spawn<internal::router>(
    std::vector<backend_actor>{session(first), session(second)},
    session(script), session(script));
  for (int i = 0; i < 40; ++i)
    ask<store_reply>(backend_actor{aut}, claim("w" + std::to_string(i % 20)));
  BOOST_TEST(!first->seen.empty());
  BOOST_TEST(!second->seen.empty());
  for (auto& op : first->seen)
    for (auto& other : second->seen)
      BOOST_TEST(op.work_id != other.work_id);
}

BOOST_AUTO_TEST_CASE(answers_everybody_when_it_is_shut_down) {
  auto aut = session(script);
  run();
  send(aut, claim("w"));
  while (answers == 0 && step())
    if (script->seen.empty())
      self->send_exit(aut, caf::exit_reason::user_shutdown);
  run();
  BOOST_TEST(answers + failures == 1);
}

BOOST_AUTO_TEST_SUITE_END()
