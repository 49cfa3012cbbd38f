// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/clock.hpp"
#include "leasehold/duration.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/identifier.hpp"
#include "leasehold/observer.hpp"
#include "leasehold/random.hpp"
#include "leasehold/retry.hpp"

#include <optional>
#include <string>

namespace leasehold {

/// What a LEASE is built from.
struct lease_options {
  /// Who we are. Should differ between processes, but nothing depends on it:
  /// the fencing number decides, not the name.
  std::string holder_id;

  /// How long a crash may go unnoticed. At least 1 ms, at most 100 years.
  duration ttl = std::chrono::seconds{30};

  /// Interval between renewals. Zero or less means ttl / 2. A value of ttl or
  /// more is accepted and means that the window closes before the first one.
  duration renew{0};

  /// Taken off the lease window to allow for clocks that run at different
  /// rates. Absent means ttl / 100 + 10 ms, but never more than ttl / 4.
  std::optional<duration> margin;

  /// Below what is left of a window an early warning goes to the observer.
  /// Absent means half of what a renewal in time leaves, (ttl - margin -
  /// renew) / 2; zero means none.
  std::optional<duration> warn_below;

  retry_policy retry;

  /// Longest wait for one answer of the store. Should be well below ttl. This
  /// and the interval are cut to 100 years, so that "for ever" is a value.
  duration store_timeout = std::chrono::seconds{5};

  std::size_t max_state_bytes = default_max_state_bytes;

  /// May be null.
  lease_observer_ptr observer;

  /// What windows are judged by; tests bring their own. Must outlive every
  /// actor and window made with it.
  const window_clock* clock = &system_window_clock();

  /// Null means the system's.
  random_source_ptr random;
};

/// config_invalid with its own code (ttl_invalid, holder_invalid), or no error.
caf::error check(const lease_options& options);

/// Fills what was left open: interval, margin, retry corrections, a silent
/// observer, the system's randomness.
lease_options completed(lease_options options);

} // namespace leasehold
