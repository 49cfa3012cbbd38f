// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/messages.hpp"

#include <functional>
#include <vector>

namespace leasehold {

namespace internal {

using backend_impl
  = typed_actor<caf::result<store_reply>(store_request),
                caf::result<backend::listing>(list_request),
                caf::result<backend::sweep_result>(sweep_request),
                // What has been queued goes to the store now.
                caf::result<void>(flush)>;

/// Serializes one store session. While the store works on one batch, requests
/// queue up in the mailbox; all of them make the next batch. So a lone request
/// waits for nothing, and a thousand share a statement.
///
///     request --> queue_ --(first one: flush to self)--> mailbox
///     request --> queue_                                    |
///     flush   <---------------------------------------------'
///        '--> store.execute(all of queue_) --> answers
///
/// Blocks while the store works: spawn it detached, except in tests.
class backend_serializer : public backend_impl::base {
public:
  backend_serializer(caf::actor_config& cfg, backend::store_ptr store);

  const char* name() const override;

protected:
  behavior_type make_behavior() override;

  void on_exit() override;

private:
  struct waiting {
    store_request request;
    caf::typed_response_promise<store_reply> promise;
  };

  bool is_late(actor_time not_after);

  void run_queue();

  std::vector<backend::outcome>
  execute(const std::vector<backend::operation>& ops);

  void undo_late_grants(const store_request& request, store_reply& reply);

  backend::store_ptr store_;
  std::vector<waiting> queue_;
};

} // namespace internal

/// Makes one more session of the same store. Called once per session before
/// the actors start; must not return null.
using session_factory = std::function<backend::store_ptr()>;

/// Spawns a single BACKEND on a thread of its own.
backend_actor spawn_backend(caf::actor_system& sys, backend::store_ptr store);

/// Spawns a ROUTER over `sessions` BACKENDs for ordinary work, one that only
/// renews, so that no other statement can delay a renewal, and one for lists
/// and sweeps. For a store that serializes all writers anyway a single BACKEND
/// (spawn_backend) is better.
backend_actor spawn_backends(caf::actor_system& sys,
                             const session_factory& factory,
                             std::size_t sessions);

} // namespace leasehold
