// SPDX-License-Identifier: Apache-2.0
#include "leasehold/lease_window.hpp"

#include <algorithm>

namespace leasehold {

ec lease_window::why_lost() const noexcept {
  if (auto why = lost_.load(std::memory_order_acquire); why != ec::none)
    return why;
  return clock_->now() < end() ? ec::none : ec::lease_window_exhausted;
}

std::chrono::nanoseconds lease_window::left() const noexcept {
  if (lost_.load(std::memory_order_acquire) != ec::none)
    return std::chrono::nanoseconds::zero();
  return std::max(until_end(), std::chrono::nanoseconds::zero());
}

bool lease_window::extend(window_time end) noexcept {
  if (auto why = why_lost(); why != ec::none) {
    // Pins the loss: from here on no clock reading can make it look held.
    lose(why);
    return false;
  }
  auto current = end_.load(std::memory_order_relaxed);
  while (current < end.count()
         && !end_.compare_exchange_weak(current, end.count(),
                                        std::memory_order_acq_rel))
    ;
  return true;
}

void lease_window::lose(ec why) noexcept {
  auto expected = ec::none;
  lost_.compare_exchange_strong(expected, why, std::memory_order_acq_rel);
}

} // namespace leasehold
