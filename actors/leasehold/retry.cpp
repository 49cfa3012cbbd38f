// SPDX-License-Identifier: Apache-2.0
#include "leasehold/retry.hpp"

#include <algorithm>

namespace leasehold {

namespace {

duration lengthened(duration base, double by) {
  auto extra = static_cast<double>(base.count()) * by;
  return base + duration{static_cast<duration::rep>(extra)};
}

} // namespace

retry_policy normalized(retry_policy policy) {
  constexpr duration least = std::chrono::milliseconds{1};
  if (policy.first <= duration::zero())
    policy.first = least;
  if (policy.max <= duration::zero())
    policy.max = least;
  // Written so that a NaN ends up as 0.
  policy.jitter = policy.jitter > 0 ? std::min(policy.jitter, 1.0) : 0.0;
  // So that doubling it does not overflow.
  policy.max = std::min(policy.max, max_duration);
  policy.first = std::min(policy.first, policy.max);
  return policy;
}

duration retry_wait(const retry_policy& policy, int attempt, double fraction) {
  auto base = policy.first;
  for (int i = 1; i < attempt && base < policy.max; ++i)
    base = std::min(base * 2, policy.max);
  return lengthened(base, policy.jitter * fraction);
}

duration jittered(duration base, double fraction) {
  return lengthened(base, 0.2 * fraction);
}

} // namespace leasehold
