// SPDX-License-Identifier: Apache-2.0
#include "leasehold/runner.hpp"

#include <utility>

namespace leasehold {

caf::error check(const runner_options& options) {
  if (!options.lease)
    return fail(ec::worker_lease_required, {}, ec::config_invalid);
  if (!options.work)
    return fail(ec::worker_work_fn_required, {}, ec::config_invalid);
  return {};
}

namespace internal {

std::shared_ptr<const slot_options>
single_run_options(lease_actor lease, worker_factory work, slot_timing timing,
                   random_source_ptr random, pool_observer_ptr observer) {
  auto result = std::make_shared<slot_options>();
  result->lease = std::move(lease);
  result->work = std::move(work);
  result->timing = completed(timing);
  result->observer
    = observer ? std::move(observer) : std::make_shared<pool_observer>();
  result->random = random ? std::move(random) : system_random();
  return result;
}

runner::runner(caf::actor_config& cfg,
               std::shared_ptr<const slot_options> options)
  : runner_impl::base(cfg), options_(std::move(options)) {
  // nop
}

const char* runner::name() const {
  return "leasehold.runner";
}

runner::behavior_type runner::make_behavior() {
  return {
    [this](run_work& call) -> caf::result<run_result> {
      auto promise = make_response_promise<run_result>();
      start(std::move(call), [promise](run_report got) mutable {
        if (got.code == ec::none)
          promise.deliver(run_result{got.recorded, got.tok.number()});
        else
          promise.deliver(fail(got.code, std::move(got.detail), got.also));
      });
      return promise;
    },
    [this](const stop_runs& request) { stop(request); },
    [this](run_once& request) -> caf::result<run_report> {
      auto promise = make_response_promise<run_report>();
      start(std::move(request.call), [promise](run_report got) mutable {
        promise.deliver(std::move(got));
      });
      return promise;
    },
  };
}

void runner::on_exit() {
  // Not an exit message: a SLOT must end its work, and give back its lease.
  for (auto& [id, x] : std::exchange(runs_, {})) {
    post_anon(x.actor, slot_stop{});
    run_report none;
    none.code = ec::cancelled;
    none.detail = "the runner ended";
    x.then(std::move(none));
  }
  options_.reset();
}

void runner::start(run_work call, on_report then) {
  auto id = ++last_id_;
  auto ticket = call.ticket;
  auto actor
    = slot_impl{spawn<slot>(call.work_id, 0u, slot_keeper{}, options_)};
  runs_.emplace(id, running{actor, ticket, std::move(then)});
  // No timeout: work may take days, and a SLOT answers also when it fails.
  post(this, run_once{std::move(call)})
    .request(actor, caf::infinite)
    .then([this, id](run_report& got) { finish(id, std::move(got)); },
          [this, id](const caf::error& err) {
            run_report none;
            none.code = code_of(err);
            none.detail = render(err);
            finish(id, std::move(none));
          });
}

void runner::finish(std::uint64_t id, run_report got) {
  if (auto node = runs_.extract(id))
    node.mapped().then(std::move(got));
}

void runner::stop(const stop_runs& request) {
  for (auto& [id, x] : runs_)
    if (request.ticket == 0 || request.ticket == x.ticket)
      post(this, slot_stop{request.how}).send(x.actor);
}

} // namespace internal

caf::expected<runner_actor> spawn_runner(caf::actor_system& sys,
                                         runner_options options) {
  if (auto err = check(options))
    return err;
  slot_timing timing;
  timing.cleanup = options.cleanup;
  timing.grace = options.grace;
  return runner_actor{sys.spawn<internal::runner>(internal::single_run_options(
    std::move(options.lease), std::move(options.work), timing,
    std::move(options.random)))};
}

} // namespace leasehold
