// SPDX-License-Identifier: Apache-2.0
#include "leasehold/hold.hpp"

#include <utility>

namespace leasehold::internal {

hold::hold(caf::actor_config& cfg, token tok)
  : hold_actor::base(cfg), tok_(std::move(tok)) {
  // nop
}

const char* hold::name() const {
  return "leasehold.hold";
}

hold::behavior_type hold::make_behavior() {
  return exit_aware(
    this,
    // CAF ignores exit messages with a normal reason; a HOLD ends by them.
    [this](caf::exit_msg& msg) { quit(std::move(msg.reason)); },
    [this](const get_token&) -> caf::result<token> { return tok_; });
}

} // namespace leasehold::internal
