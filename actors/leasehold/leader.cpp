// SPDX-License-Identifier: Apache-2.0
#include "leasehold/leader.hpp"

#include "leasehold/retry.hpp"

#include <utility>

namespace leasehold {

caf::error check(const leader_options& options) {
  if (!options.lease)
    return fail(ec::leader_lease_required, {}, ec::config_invalid);
  if (!options.work)
    return fail(ec::leader_fn_required, {}, ec::config_invalid);
  return {};
}

namespace internal {

namespace {

/// Passes on the one event of a SLOT that a leader has, too: called after the
/// acquire and before the work.
class elected_event : public pool_observer {
public:
  explicit elected_event(leader_observer_ptr to) : to_(std::move(to)) {
    // nop
  }

  void on_slot_acquired(const token& tok, const prior& found) override {
    to_->on_elected(tok, found);
  }

private:
  leader_observer_ptr to_;
};

} // namespace

leader::leader(caf::actor_config& cfg, runner_impl runner,
               leader_options options)
  : leader_impl::base(cfg), runner_(std::move(runner)),
    options_(std::move(options)) {
  // nop
}

const char* leader::name() const {
  return "leasehold.leader";
}

leader::behavior_type leader::make_behavior() {
  return {
    [this](elect& call) -> caf::result<run_result> {
      auto promise = make_response_promise<run_result>();
      start(call, promise);
      return promise;
    },
    [this](const resign& request) { stop(request); },
    [this](const wake&) {
      while (auto id = alarms_.pop_due(clock().now()))
        answer(*id);
      alarms_.arm(this, leader_impl{this});
    },
  };
}

void leader::on_exit() {
  for (auto& [id, x] : elections_)
    x.promise.deliver(fail(ec::cancelled, "the leader actor ended"));
  elections_.clear();
  caf::anon_send_exit(runner_, caf::exit_reason::user_shutdown);
  runner_ = nullptr;
  options_ = leader_options{};
}

void leader::start(elect& call,
                   caf::typed_response_promise<run_result> promise) {
  auto id = ++last_id_;
  elections_.emplace(id, election{call.ticket, std::move(promise), {}, false});
  run_work work;
  work.work_id = std::move(call.name);
  work.wait = call.wait;
  work.poll = call.poll;
  work.timeout = call.timeout;
  work.ticket = id;
  // No timeout: see RUNNER.
  post(this, run_once{std::move(work)})
    .request(runner_, caf::infinite)
    .then([this, id](run_report& got) { on_report(id, std::move(got)); },
          [this, id](const caf::error& err) {
            run_report none;
            none.code = code_of(err);
            none.detail = render(err);
            on_report(id, std::move(none));
          });
}

void leader::on_report(std::uint64_t id, run_report got) {
  auto& x = elections_.at(id);
  if (got.lost != ec::none)
    options_.observer->on_lost(got.tok, got.lost, got.detail);
  else if (got.recorded == exit_mode::finished
           || got.recorded == exit_mode::retired)
    options_.observer->on_relinquished(got.tok, got.recorded);
  auto pause = pause_before(got, options_, options_.random->fraction());
  x.got = std::move(got);
  if (x.over || pause <= duration::zero()) {
    answer(id);
    return;
  }
  alarms_.set(id, clock().now() + pause);
  alarms_.arm(this, leader_impl{this});
}

void leader::stop(const resign& request) {
  std::vector<std::uint64_t> ids;
  for (auto& [id, x] : elections_)
    if (request.ticket == 0 || request.ticket == x.ticket)
      ids.push_back(id);
  for (auto id : ids) {
    auto& x = elections_.at(id);
    x.over = true;
    if (x.got)
      answer(id);
    else
      post(this, stop_runs{id, request.how}).send(runner_);
  }
}

void leader::answer(std::uint64_t id) {
  auto x = std::move(elections_.extract(id).mapped());
  alarms_.clear(id);
  auto& got = *x.got;
  if (got.code == ec::none)
    x.promise.deliver(run_result{got.recorded, got.tok.number()});
  else
    x.promise.deliver(fail(got.code, std::move(got.detail), got.also));
}

duration pause_before(const run_report& got, const leader_options& options,
                      double fraction) {
  if (got.code == ec::fenced)
    return duration::zero();
  if (got.tok.empty()) {
    if (got.code == ec::lease_held)
      return jittered(options.idle, fraction);
    // The caller's own limit.
    if (got.code == ec::cancelled || got.code == ec::deadline_exceeded)
      return duration::zero();
  }
  return options.backoff;
}

} // namespace internal

caf::expected<leader_actor> spawn_leader(caf::actor_system& sys,
                                         leader_options options) {
  using namespace std::chrono_literals;
  if (auto err = check(options))
    return err;
  if (options.idle <= duration::zero())
    options.idle = 1s;
  options.idle = std::min(options.idle, max_duration);
  options.backoff = std::clamp(options.backoff, duration::zero(), max_duration);
  if (!options.observer)
    options.observer = std::make_shared<leader_observer>();
  if (!options.random)
    options.random = system_random();
  slot_timing timing;
  timing.cleanup = options.cleanup;
  timing.grace = options.grace;
  auto runner = sys.spawn<internal::runner>(internal::single_run_options(
    options.lease, options.work, timing, options.random,
    std::make_shared<internal::elected_event>(options.observer)));
  return leader_actor{sys.spawn<internal::leader>(internal::runner_impl{runner},
                                                  std::move(options))};
}

} // namespace leasehold
