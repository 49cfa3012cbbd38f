// SPDX-License-Identifier: Apache-2.0
//
// What makes workers that are actors short to write. The least that one needs:
//
//   worker_from([](caf::event_based_actor* self, assignment job) {
//     post(self, step{}).send(caf::actor{self});
//     return caf::behavior{[self, job](step) { /* ... finish(...) */ }};
//   })
//
// or a class of your own, with `end_with(this, job.hold)` in its constructor:
//
//   worker_of<importer>("/var/spool/in")
//
// work.hpp says what a worker owes to its slot.
#pragma once

#include "leasehold/work.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace leasehold {

/// Longest wait of a worker for the answer to a checkpoint. Only reached when
/// something is broken: a LEASE answers within its own store timeout, or ends.
inline constexpr auto checkpoint_answer_limit = std::chrono::minutes{2};

/// Stores progress from an actor worker and extends the lease; both or neither.
/// Absent or empty state clears what is stored. Returns CAF's response handle:
///
///   checkpoint(self, job, "line 40").then([=](const confirmation&) { ... });
///
/// The answer comes when it is stored. Errors as checkpoint_request; without a
/// handler for them an error ends the worker, with itself as the reason. A
/// worker that ends with its HOLD (end_with) is ended before it could hear that
/// it was fenced. Drop neither the handle nor `job` before the answer.
template <class Self>
auto checkpoint(Self* self, const assignment& job,
                std::optional<std::string> state) {
  return post(self, checkpoint_request{job.tok, std::move(state)})
    .request(job.lease, checkpoint_answer_limit);
}

/// Makes one actor of class `Impl` per run, from (assignment, args...). `Impl`
/// may be typed or untyped; each run gets copies of `args`. Add caf::detached
/// as the second template argument if its handlers block.
template <class Impl, caf::spawn_options Options = caf::no_spawn_options,
          class... Args>
worker_factory worker_of(Args... args) {
  return [args = std::tuple<Args...>{std::move(args)...}](
           caf::actor_system& sys, assignment job) {
    return std::apply(
      [&](const Args&... xs) {
        return caf::actor_cast<caf::actor>(
          sys.spawn<Impl, Options>(std::move(job), xs...));
      },
      args);
  };
}

/// Makes one actor per run from a function that takes
/// (caf::event_based_actor* self, assignment job) and returns its behavior.
/// The actor ends with the lease by itself: nothing else is needed for that.
/// An exception that leaves `fn` ends the run as work_threw.
template <class F>
worker_factory worker_from(F fn) {
  return [fn = std::move(fn)](caf::actor_system& sys, assignment job) {
    auto body = [fn, job = std::move(job)](
                  caf::event_based_actor* self) mutable -> caf::behavior {
      end_with(self, job.hold);
      return fn(self, std::move(job));
    };
    return caf::actor{sys.spawn(std::move(body))};
  };
}

} // namespace leasehold
