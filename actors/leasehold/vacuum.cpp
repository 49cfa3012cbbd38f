// SPDX-License-Identifier: Apache-2.0
#include "leasehold/vacuum.hpp"

#include <utility>

namespace leasehold {

caf::error check(const vacuum_options& options) {
  if (!options.store)
    return fail(ec::nil_backend, {}, ec::config_invalid);
  if (options.retention <= duration::zero())
    return fail(ec::retention_required,
                "a retention of " + format_duration(options.retention)
                  + " would delete what somebody may still read",
                ec::config_invalid);
  return {};
}

namespace internal {

namespace {

using std::chrono::duration_cast;
using std::chrono::nanoseconds;

// Beyond the time the BACKEND may take to start.
constexpr auto answer_slack = std::chrono::seconds{1};

} // namespace

vacuum::vacuum(caf::actor_config& cfg, vacuum_options options)
  : vacuum_impl::base(cfg), options_(std::move(options)) {
  if (!options_.observer)
    options_.observer = std::make_shared<vacuum_observer>();
}

const char* vacuum::name() const {
  return "leasehold.vacuum";
}

vacuum::behavior_type vacuum::make_behavior() {
  schedule();
  return {
    [this](const sweep_now&) -> caf::result<swept> {
      auto promise = make_response_promise<swept>();
      sweep([promise](const backend::sweep_result& got) mutable {
        if (got.code == ec::none)
          promise.deliver(swept{got.deleted});
        else
          promise.deliver(fail(got.code, got.detail, got.also));
      });
      return promise;
    },
    [this](const wake&) {
      // The next pause starts now: a slow sweep does not shift the schedule,
      // and one that gets no answer does not end it.
      schedule();
      sweep([](const backend::sweep_result&) {});
    },
  };
}

void vacuum::on_exit() {
  options_.store = nullptr;
}

void vacuum::schedule() {
  if (options_.every > duration::zero())
    post(this, wake{}).delay(options_.every).send(vacuum_impl{this});
}

void vacuum::sweep(std::function<void(const backend::sweep_result&)> then) {
  auto began = clock().now();
  auto settle
    = [this, began, then = std::move(then)](const backend::sweep_result& got) {
        result_info info{got.code, got.also, got.detail,
                         duration_cast<duration>(clock().now() - began)};
        options_.observer->on_sweep(
          options_.retention, options_.include_expired, got.deleted, info);
        then(got);
      };
  sweep_request request;
  request.query = {options_.retention, options_.include_expired};
  request.not_after
    = duration_cast<nanoseconds>((began + options_.timeout).time_since_epoch())
        .count();
  post(this, std::move(request))
    .request(options_.store, options_.timeout + answer_slack)
    .then(settle, [settle](const caf::error& err) {
      backend::sweep_result none;
      none.code = code_of(err);
      none.detail = render(err);
      settle(none);
    });
}

} // namespace internal

caf::expected<vacuum_actor> spawn_vacuum(caf::actor_system& sys,
                                         vacuum_options options) {
  if (auto err = check(options))
    return err;
  return vacuum_actor{sys.spawn<internal::vacuum>(std::move(options))};
}

} // namespace leasehold
