// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/duration.hpp"

namespace leasehold {

/// How long to wait between attempts at a store that does not answer: `first`,
/// doubling up to `max`, each lengthened by up to `jitter` times itself so that
/// many holders do not come back in step.
struct retry_policy {
  duration first = std::chrono::milliseconds{100};

  duration max = std::chrono::seconds{5};

  /// Fraction of the wait, 0 to 1.
  double jitter = 0.2;
};

/// Corrects impossible values, in this order: a first wait or a cap at or
/// below zero becomes 1 ms, jitter is held within 0 to 1, a first wait above
/// the cap becomes the cap.
retry_policy normalized(retry_policy policy);

/// The wait after failed attempt number `attempt` (from 1). `fraction` is a
/// random number in [0, 1); the result lies in [base, base * (1 + jitter)).
duration retry_wait(const retry_policy& policy, int attempt, double fraction);

/// `base` lengthened by up to 20 %: for pauses that many slots make together.
duration jittered(duration base, double fraction);

} // namespace leasehold
