// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/alarms.hpp"
#include "leasehold/lease_options.hpp"
#include "leasehold/messages.hpp"

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace leasehold::internal {

using renewal_impl
  = typed_actor<caf::result<void>(keep), caf::result<void>(drop),
                caf::result<void>(wake)>;

/// Where a RENEWAL reports lost leases.
using loss_sink = typed_actor<caf::result<void>(lost)>;

/// Keeps every lease of one LEASE alive with one timer and, for all leases due
/// at about the same time, one request.
///
/// For each lease it watches two points: when to renew next, and where the
/// window ends. The second does not depend on the first: a request that hangs
/// cannot hold a window open. Of a lease that is not managed it watches the
/// window only.
///
/// On a loss, in this order: the window is marked (readable by every thread at
/// once), the HOLD is ended with the cause as its reason, the LEASE is told.
/// Nobody else ends a HOLD for a loss, so each is ended and reported once.
class renewal : public renewal_impl::base {
public:
  renewal(caf::actor_config& cfg, backend_actor store, loss_sink lease,
          lease_options options);

  const char* name() const override;

protected:
  behavior_type make_behavior() override;

  void on_exit() override;

private:
  using time_point = caf::actor_clock::time_point;

  /// What went wrong since the last confirmation.
  struct trouble {
    std::string last_error;
    std::vector<failed_attempt> attempts;
    /// When the answer to each of them came.
    std::vector<time_point> answered;
    bool warned = false;
  };

  struct entry {
    keep held;
    /// When the next attempt is due.
    time_point due;
    /// Of the attempt that is due or on its way, from 1.
    int attempt = 1;
    bool in_flight = false;
    /// Null while all is well.
    std::unique_ptr<trouble> bad;
  };

  void start(keep& what);

  /// The interval before the first renewal. Of a window that is partly over it
  /// takes the same part: a grant that was long on its way, or that is kept
  /// late, must not run out before its first renewal.
  duration first_wait(const lease_window& window) const;

  void look();

  /// The early warning, if it is due.
  void warn_if_low(entry& x);

  void send_batch(const std::vector<std::int64_t>& numbers);

  void settle(std::int64_t number, window_time sent, time_point began,
              const backend::outcome& got);

  /// Keeps a failed attempt for the report of a loss.
  void note_failure(entry& x, ec code, std::string detail);

  /// The LEASE met a refusal that says so.
  void lose(drop& what);

  void end(std::int64_t number, ec cause, ec also = ec::none);

  /// Sets the alarm of an entry to whatever comes first.
  void arm(std::int64_t number, const entry& x);

  /// Where a window ends, on the actor clock.
  time_point window_end(const entry& x);

  backend_actor store_;
  loss_sink lease_;
  lease_options options_;
  /// Leases due within so long of each other share a request.
  duration quantum_;
  std::unordered_map<std::int64_t, entry> entries_;
  alarms<std::int64_t> alarms_;
};

} // namespace leasehold::internal
