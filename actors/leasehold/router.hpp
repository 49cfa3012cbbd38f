// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/messages.hpp"

#include <memory>
#include <vector>

namespace leasehold::internal {

/// The backend_actor that everyone holds where a store has several sessions.
/// Operations on one work ID always go to the same session, so they keep their
/// order; renewals have a session of their own, so that nothing delays them;
/// lists and sweeps another. Ends its BACKENDs when it ends.
class router : public backend_actor::base {
public:
  router(caf::actor_config& cfg, std::vector<backend_actor> workers,
         backend_actor renewals, backend_actor bulk);

  const char* name() const override;

protected:
  behavior_type make_behavior() override;

  void on_exit() override;

private:
  /// Index of the BACKEND for `op`; workers_.size() means renewals_.
  std::size_t destination(const backend::operation& op) const;

  const backend_actor& at(std::size_t index) const;

  caf::result<store_reply> split(store_request& request);

  std::vector<backend_actor> workers_;
  backend_actor renewals_;
  backend_actor bulk_;
};

} // namespace leasehold::internal
