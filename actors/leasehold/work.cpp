// SPDX-License-Identifier: Apache-2.0
#include "leasehold/work.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace leasehold {

namespace {

// Longer than any LEASE takes to answer; its own limits come first.
constexpr auto answer_limit = std::chrono::minutes{2};

/// Hosts one call of a worker function. Detached, because the call blocks.
class function_worker : public caf::event_based_actor {
public:
  function_worker(caf::actor_config& cfg, assignment job, work_function fn)
    : caf::event_based_actor(cfg), job_(std::move(job)), fn_(std::move(fn)) {
    // nop
  }

  const char* name() const override {
    return "leasehold.function_worker";
  }

protected:
  caf::behavior make_behavior() override {
    post(this, internal::wake{}).send(caf::actor{this});
    return {[this](internal::wake) { finish(this, job_, run()); }};
  }

  void on_exit() override {
    job_ = assignment{};
  }

private:
  work_result run() {
    try {
      work_context context{system(), job_};
      return fn_(context);
    } catch (const std::exception& x) {
      return {ec::work_threw, x.what(), std::nullopt};
    } catch (...) {
      return {ec::work_threw, "an exception of unknown type", std::nullopt};
    }
  }

  assignment job_;
  work_function fn_;
};

} // namespace

bool work_control::wait_for(duration pause) {
  std::unique_lock lock{mtx_};
  auto stopped = [this] { return stop_requested(); };
  // Nobody signals the end of the window: it is a point in time, and it moves
  // with each renewal.
  while (pause > duration::zero()) {
    auto part = std::min(pause, window_left());
    if (changed_.wait_for(lock, part, stopped))
      return false;
    pause -= part;
  }
  return !stop_requested();
}

void work_control::request_stop() {
  {
    std::lock_guard guard{mtx_};
    stop_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

work_context::work_context(caf::actor_system& sys, assignment job)
  : job_(std::move(job)), self_(sys) {
  // nop
}

caf::error work_context::checkpoint(std::optional<std::string> state) {
  caf::error result;
  post(self_, checkpoint_request{job_.tok, std::move(state)})
    .request(job_.lease, answer_limit)
    .receive([](const confirmation&) {},
             [&](caf::error& err) { result = std::move(err); });
  return result;
}

worker_factory run_function(work_function fn) {
  return [fn = std::move(fn)](caf::actor_system& sys, assignment job) {
    return caf::actor{
      sys.spawn<function_worker, caf::detached>(std::move(job), fn)};
  };
}

work_result succeeded(std::optional<std::string> state) {
  return {ec::none, {}, std::move(state)};
}

work_result retired(std::optional<std::string> state) {
  return {ec::retire, {}, std::move(state)};
}

work_result failed(std::string detail, std::optional<std::string> state) {
  return {ec::work_failed, std::move(detail), std::move(state)};
}

work_result failed_for_good(std::string detail,
                            std::optional<std::string> state) {
  return {ec::work_permanent, std::move(detail), std::move(state)};
}

} // namespace leasehold
