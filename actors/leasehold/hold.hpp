// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/messages.hpp"

namespace leasehold::internal {

/// See hold_actor. Has no timer and sends nothing: its LEASE or RENEWAL ends it
/// by an exit message, whose reason becomes its own.
class hold : public passive_actor<get_token, token> {
public:
  hold(caf::actor_config& cfg, token tok);

  const char* name() const override;

protected:
  token answer() const override;

private:
  token tok_;
};

} // namespace leasehold::internal
