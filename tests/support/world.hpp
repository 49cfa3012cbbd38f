// SPDX-License-Identifier: Apache-2.0
//
// Step-by-step execution with virtual time.
#pragma once

#include "leasehold/caf.hpp"

#include <boost/test/unit_test.hpp>

#if LEASEHOLD_CAF_017
#  include <caf/scheduler/test_coordinator.hpp>
#else
#  include <caf/test/context.hpp>
#  include <caf/test/fixture/deterministic.hpp> // link CAF::test
#  include <caf/test/reporter.hpp>
#endif

namespace leasehold::test {

namespace detail {

#if LEASEHOLD_CAF_017

template <class... Blocks>
class engine {
public:
  engine() : sys(prepare(cfg_)) {
    // nop
  }

  caf::actor_clock::time_point now() {
    return sched().clock().current_time;
  }

  bool step() {
    return sched().try_run_once();
  }

  std::optional<caf::actor_clock::time_point> next_timer() {
    auto& timers = sched().clock().schedule();
    if (timers.empty())
      return std::nullopt;
    return timers.begin()->first;
  }

  void fire_next_timer() {
    sched().trigger_timeout();
  }

  void set_time(caf::actor_clock::time_point t) {
    sched().clock().current_time = t;
  }

  void drop_timers() {
    sched().clock().cancel_all();
  }

private:
  static caf::actor_system_config& prepare(caf::actor_system_config& cfg) {
    cfg.set("scheduler.policy", caf::atom("testing"));
    cfg.set("logger.inline-output", true);
    return cfg;
  }

  caf::scheduler::test_coordinator& sched() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(sys.scheduler());
  }

  config_base<Blocks...> cfg_;

public:
  caf::actor_system sys;
};

#else

// CAF's fixture talks to CAF's own test runner; give it a reporter to talk to.
struct reporter_setup {
  reporter_setup() {
    static auto ptr = [] {
      auto result = caf::test::reporter::make_default();
      // It refuses to hear of an exception in an actor outside of a test.
      result->begin_test(std::make_shared<caf::test::context>(), "leasehold");
      return result;
    }();
    caf::test::reporter::instance(ptr.get());
  }
};

template <class... Blocks>
class engine : private leasehold::detail::type_setup<Blocks...>,
               private reporter_setup,
               private caf::test::fixture::deterministic {
public:
  using caf::test::fixture::deterministic::sys;

  caf::actor_clock::time_point now() {
    return sys.clock().now();
  }

  bool step() {
    return dispatch_message();
  }

  std::optional<caf::actor_clock::time_point> next_timer() {
    if (!has_pending_timeout())
      return std::nullopt;
    return next_timeout();
  }

  void fire_next_timer() {
    trigger_timeout();
  }

  void set_time(caf::actor_clock::time_point t) {
    caf::test::fixture::deterministic::set_time(t);
  }

  void drop_timers() {
    // the fixture's destructor does that
  }
};

#endif

} // namespace detail

/// Hosts an actor system on which nothing happens unless the test says so.
/// Spawn the actors under test without caf::detached.
template <class... Blocks>
class world : public detail::engine<Blocks...> {
public:
  using clock = caf::actor_clock;

  world() : self(this->sys, true), start_(this->now()) {
    // nop
  }

  ~world() {
    end_all();
  }

  /// Ends all actors, since the system waits for them and they may refer to
  /// each other. A fixture that they look at calls it in its own destructor.
  void end_all() {
    for (auto& addr : spawned_)
      self->send_exit(addr, caf::exit_reason::kill);
    run();
    this->drop_timers();
    run();
  }

  /// Spawns an actor that ends with the test.
  template <class Impl, class... Ts>
  auto spawn(Ts&&... xs) {
    auto hdl = this->sys.template spawn<Impl>(std::forward<Ts>(xs)...);
    spawned_.push_back(hdl.address());
    return hdl;
  }

  /// Ends an actor that somebody else spawned with the test.
  template <class Handle>
  Handle track(Handle hdl) {
    spawned_.push_back(hdl.address());
    return hdl;
  }

  template <class F, class... Ts>
  auto spawn_fn(F f, Ts&&... xs) {
    auto hdl = this->sys.spawn(std::move(f), std::forward<Ts>(xs)...);
    spawned_.push_back(hdl.address());
    return hdl;
  }

  /// Virtual time since construction.
  clock::duration_type elapsed() {
    return this->now() - start_;
  }

  /// Processes messages until all mailboxes are empty; time stands still.
  size_t run() {
    size_t n = 0;
    while (this->step())
      ++n;
    return n;
  }

  /// Moves time forward, stopping at each due timer to process messages, so
  /// that a timer re-armed by its handler fires on its own schedule.
  size_t advance(clock::duration_type delta) {
    auto target = this->now() + delta;
    auto fired = size_t{0};
    run();
    for (auto due = this->next_timer(); due && *due <= target;
         due = this->next_timer()) {
      this->fire_next_timer();
      ++fired;
      run();
    }
    if (target > this->now())
      this->set_time(target);
    return fired;
  }

  /// Sends a request, processes messages, returns the response or fails.
  template <class R, class Handle, class... Ts>
  R ask(const Handle& to, Ts... xs) {
    std::optional<R> result;
    auto hdl = post(self, std::move(xs)...).request(to, caf::infinite);
    run();
    std::move(hdl).receive(
      [&](R& x) { result = std::move(x); },
      [&](caf::error& e) { BOOST_FAIL("unexpected error: " << to_string(e)); });
    return std::move(*result);
  }

  /// As ask, for requests that must fail.
  template <class R, class Handle, class... Ts>
  caf::error ask_error(const Handle& to, Ts... xs) {
    caf::error result;
    auto hdl = post(self, std::move(xs)...).request(to, caf::infinite);
    run();
    std::move(hdl).receive(
      [&](R& x) {
        BOOST_FAIL("unexpected result: " << caf::deep_to_string(x));
      },
      [&](caf::error& e) { result = std::move(e); });
    return result;
  }

  caf::scoped_actor self;

private:
  std::vector<caf::actor_addr> spawned_;
  clock::time_point start_;
};

} // namespace leasehold::test
