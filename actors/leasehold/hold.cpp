// SPDX-License-Identifier: Apache-2.0
#include "leasehold/hold.hpp"

#include <utility>

namespace leasehold::internal {

hold::hold(caf::actor_config& cfg, token tok)
  : passive_actor(cfg), tok_(std::move(tok)) {
  // nop
}

const char* hold::name() const {
  return "leasehold.hold";
}

token hold::answer() const {
  return tok_;
}

} // namespace leasehold::internal
