// SPDX-License-Identifier: Apache-2.0
#include "leasehold/router.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace leasehold::internal {

namespace {

// Beyond the sender's own limit; only reached if a BACKEND dies without an
// answer.
constexpr auto last_resort = std::chrono::minutes{10};

// A request that was split over several BACKENDs.
struct gathering {
  caf::typed_response_promise<store_reply> promise;
  store_reply reply;
  std::size_t missing = 0;
};

} // namespace

router::router(caf::actor_config& cfg, std::vector<backend_actor> workers,
               backend_actor renewals, backend_actor bulk)
  : backend_actor::base(cfg), workers_(std::move(workers)),
    renewals_(std::move(renewals)), bulk_(std::move(bulk)) {
  // nop
}

const char* router::name() const {
  return "leasehold.router";
}

router::behavior_type router::make_behavior() {
  return {
    [this](store_request& request) -> caf::result<store_reply> {
      auto& ops = request.ops;
      if (ops.empty())
        return store_reply{};
      auto first = destination(ops.front());
      auto same = [&](const backend::operation& op) {
        return destination(op) == first;
      };
      if (std::all_of(ops.begin() + 1, ops.end(), same))
        return post(this, std::move(request)).delegate(at(first));
      return split(request);
    },
    [this](list_request& request) -> caf::result<backend::listing> {
      return post(this, std::move(request)).delegate(bulk_);
    },
    [this](sweep_request& request) -> caf::result<backend::sweep_result> {
      return post(this, std::move(request)).delegate(bulk_);
    },
  };
}

void router::on_exit() {
  // Anonymous: an actor that ends because nobody refers to it any more has no
  // execution context left to send from.
  for (auto& worker : workers_)
    caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(renewals_, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(bulk_, caf::exit_reason::user_shutdown);
  workers_.clear();
  renewals_ = nullptr;
  bulk_ = nullptr;
}

std::size_t router::destination(const backend::operation& op) const {
  if (op.kind == backend::op_kind::renew)
    return workers_.size();
  return std::hash<std::string>{}(op.work_id) % workers_.size();
}

const backend_actor& router::at(std::size_t index) const {
  return index < workers_.size() ? workers_[index] : renewals_;
}

caf::result<store_reply> router::split(store_request& request) {
  std::map<std::size_t, std::vector<std::size_t>> parts;
  for (std::size_t i = 0; i < request.ops.size(); ++i)
    parts[destination(request.ops[i])].push_back(i);
  auto whole = std::make_shared<gathering>();
  whole->promise = make_response_promise<store_reply>();
  whole->reply.outcomes.resize(request.ops.size());
  whole->missing = parts.size();
  auto finish_part = [whole] {
    if (--whole->missing == 0)
      whole->promise.deliver(std::move(whole->reply));
  };
  for (auto& [index, members] : parts) {
    store_request part;
    part.not_after = request.not_after;
    for (auto i : members)
      part.ops.push_back(std::move(request.ops[i]));
    post(this, std::move(part))
      .request(at(index), last_resort)
      .then(
        [whole, finish_part, members = members](store_reply& reply) {
          for (std::size_t i = 0; i < members.size(); ++i)
            whole->reply.outcomes[members[i]] = std::move(reply.outcomes[i]);
          finish_part();
        },
        [whole, finish_part, members = members](caf::error&) {
          for (auto i : members) {
            whole->reply.outcomes[i].code = ec::unknown_outcome;
            whole->reply.outcomes[i].detail = "the store session is gone";
          }
          finish_part();
        });
  }
  return whole->promise;
}

} // namespace leasehold::internal
