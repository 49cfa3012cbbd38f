// SPDX-License-Identifier: Apache-2.0
#include "leasehold/backend_actor.hpp"

#include "leasehold/router.hpp"
#include "leasehold/run_end.hpp"

#include <exception>
#include <iterator>
#include <utility>

namespace leasehold {

namespace internal {

namespace {

std::vector<backend::outcome> all_failed(std::size_t n, ec code,
                                         std::string detail) {
  backend::outcome x;
  x.code = code;
  x.detail = std::move(detail);
  return std::vector<backend::outcome>(n, x);
}

constexpr const char* late_text
  = "the store was busy and the time for this call passed before it started";

} // namespace

backend_serializer::backend_serializer(caf::actor_config& cfg,
                                       backend::store_ptr store)
  : backend_impl::base(cfg), store_(std::move(store)) {
  // nop
}

const char* backend_serializer::name() const {
  return "leasehold.backend";
}

backend_serializer::behavior_type backend_serializer::make_behavior() {
  return {
    [this](store_request& request) -> caf::result<store_reply> {
      auto promise = make_response_promise<store_reply>();
      if (queue_.empty())
        post(this, flush{}).send(backend_impl{this});
      queue_.push_back({std::move(request), promise});
      return promise;
    },
    [this](const list_request& request) -> caf::result<backend::listing> {
      if (is_late(request.not_after)) {
        backend::listing late;
        late.code = ec::deadline_exceeded;
        late.detail = late_text;
        return late;
      }
      return store_->list(request.query);
    },
    [this](const sweep_request& request) -> caf::result<backend::sweep_result> {
      if (is_late(request.not_after)) {
        backend::sweep_result late;
        late.code = ec::deadline_exceeded;
        late.detail = late_text;
        return late;
      }
      return store_->sweep(request.query);
    },
    [this](const flush&) { run_queue(); },
  };
}

void backend_serializer::on_exit() {
  for (auto& item : queue_)
    item.promise.deliver(store_reply{all_failed(
      item.request.ops.size(), ec::unavailable, "the store was shut down")});
  queue_.clear();
  store_.reset();
}

bool backend_serializer::is_late(actor_time not_after) {
  return not_after != 0
         && clock().now().time_since_epoch()
              > std::chrono::nanoseconds{not_after};
}

void backend_serializer::run_queue() {
  auto batch = std::exchange(queue_, {});
  std::vector<backend::operation> ops;
  std::vector<std::size_t> starts;
  for (auto& item : batch) {
    starts.push_back(ops.size());
    if (!is_late(item.request.not_after))
      std::move(item.request.ops.begin(), item.request.ops.end(),
                std::back_inserter(ops));
    // What was moved from keeps its size: it tells how many answers are due.
  }
  starts.push_back(ops.size());
  auto outcomes = execute(ops);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    auto first = outcomes.begin() + static_cast<std::ptrdiff_t>(starts[i]);
    auto last = outcomes.begin() + static_cast<std::ptrdiff_t>(starts[i + 1]);
    auto& request = batch[i].request;
    store_reply reply;
    if (first == last) {
      reply.outcomes
        = all_failed(request.ops.size(), ec::deadline_exceeded, late_text);
    } else {
      std::move(ops.begin() + static_cast<std::ptrdiff_t>(starts[i]),
                ops.begin() + static_cast<std::ptrdiff_t>(starts[i + 1]),
                request.ops.begin());
      reply.outcomes.assign(std::make_move_iterator(first),
                            std::make_move_iterator(last));
      if (is_late(request.not_after))
        undo_late_grants(request, reply);
    }
    batch[i].promise.deliver(std::move(reply));
  }
}

std::vector<backend::outcome>
backend_serializer::execute(const std::vector<backend::operation>& ops) {
  if (ops.empty())
    return {};
  // Stores promise not to throw; a store that breaks that promise must not
  // take the actor, and with it every lease of the process, down.
  try {
    auto outcomes = store_->execute(ops);
    if (outcomes.size() == ops.size())
      return outcomes;
    return all_failed(ops.size(), ec::unknown_outcome,
                      "the store returned a wrong number of outcomes");
  } catch (const std::exception&) {
    return all_failed(ops.size(), ec::unknown_outcome,
                      "the store failed by an exception");
  }
}

void backend_serializer::undo_late_grants(const store_request& request,
                                          store_reply& reply) {
  std::vector<backend::operation> releases;
  for (std::size_t i = 0; i < request.ops.size(); ++i) {
    auto& op = request.ops[i];
    auto& got = reply.outcomes[i];
    if (op.kind != backend::op_kind::acquire || !got.ok())
      continue;
    auto tok = token_access::make(op.work_id, op.holder_id, got.number,
                                  got.expires_us);
    releases.push_back(
      backend::operation::release(tok, unused_exit(got.previous.exit)));
    got = all_failed(1, ec::deadline_exceeded,
                     "the grant came after the time for the call had passed "
                     "and was given back")
            .front();
  }
  execute(releases);
}

} // namespace internal

backend_actor spawn_backend(caf::actor_system& sys, backend::store_ptr store) {
  return sys.spawn<internal::backend_serializer, caf::detached>(
    std::move(store));
}

backend_actor spawn_backends(caf::actor_system& sys,
                             const session_factory& factory,
                             std::size_t sessions) {
  std::vector<backend_actor> workers;
  for (std::size_t i = 0; i < std::max<std::size_t>(sessions, 1); ++i)
    workers.push_back(spawn_backend(sys, factory()));
  return sys.spawn<internal::router>(std::move(workers),
                                     spawn_backend(sys, factory()),
                                     spawn_backend(sys, factory()));
}

} // namespace leasehold
