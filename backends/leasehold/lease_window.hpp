// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/clock.hpp"
#include "leasehold/error.hpp"

#include <atomic>
#include <memory>

namespace leasehold {

/// The span in which a holder may believe that it holds, as the holder itself
/// can know it: from (local time just before the last confirmed request was
/// sent) for ttl - margin. Every look compares the clock, so the answer is
/// right at the first look after a pause, whatever timers have fired.
///
///     local:  sent |------ ttl - margin ------| end
///     store:       |...| runs |--------- ttl ---------| expiry
///
/// The store counts from when the statement runs, which is never before it was
/// sent; so as long as both clocks run at the same rate (margin allows for the
/// difference) the window ends before the lease can belong to anybody else.
///
/// All members are lock-free and may be called from any thread.
class lease_window {
public:
  lease_window(const window_clock& clock, window_time end) noexcept
    : clock_(&clock), end_(end.count()) {
    // nop
  }

  /// Whether the holder may go on working at this very moment.
  bool held() const noexcept {
    return why_lost() == ec::none;
  }

  /// `none` while held; otherwise why not. A window that nobody marked but
  /// whose end has passed reads as lease_window_exhausted.
  ec why_lost() const noexcept;

  /// Time left; zero once it is lost.
  std::chrono::nanoseconds left() const noexcept;

  /// Where the window ends on the window clock. Stays readable after a loss:
  /// whoever still has to stop something has until then.
  window_time end() const noexcept {
    return window_time{end_.load(std::memory_order_acquire)};
  }

  /// Time to `end`, lost or not; negative when it has passed.
  std::chrono::nanoseconds until_end() const noexcept {
    return end() - clock_->now();
  }

  /// Moves the end forward after a confirmed success. Never moves it back.
  /// Returns false, and changes nothing, once the window was lost or its end
  /// has passed: a late confirmation does not bring a lease back.
  bool extend(window_time end) noexcept;

  /// Marks the window lost. The first reason stays.
  void lose(ec why) noexcept;

private:
  const window_clock* clock_;
  std::atomic<window_time::rep> end_;
  std::atomic<ec> lost_{ec::none};
};

using lease_window_ptr = std::shared_ptr<lease_window>;

} // namespace leasehold
