// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/duration.hpp"
#include "leasehold/error.hpp"
#include "leasehold/token.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace leasehold {

/// How an operation ended, as an observer sees it.
struct result_info {
  ec code = ec::none;
  ec also = ec::none;
  /// For people; never holds state bytes or credentials.
  std::string_view detail;
  /// How long the one store call took, by the actor clock.
  duration took{0};
};

/// A renewal that did not succeed.
struct failed_attempt {
  ec code = ec::none;
  /// How long before the report its answer, or its timeout, came.
  duration ago{0};
};

/// How a lease was lost.
struct loss_report {
  /// fenced or lease_window_exhausted.
  ec cause = ec::none;

  /// lease_expired if the store said so itself.
  ec also = ec::none;

  /// The last error of the store, for people; may be empty.
  std::string_view last_error;

  /// Time since the last confirmation.
  duration silent_for{0};

  /// What was tried since then, oldest first; the last 16 if there were more.
  std::span<const failed_attempt> attempts;
};

/// Learns of every lease operation, after it, success or not. Called in the
/// actor that made the call: must return quickly and must not throw. All
/// members do nothing unless overridden, so a new event breaks nobody.
class lease_observer {
public:
  virtual ~lease_observer();

  /// One attempt to acquire; a waiting acquire reports each of its attempts.
  /// `tok` is empty unless it was granted. `found` is what it got with it.
  virtual void on_acquire(std::string_view work_id, const token& tok,
                          const prior& found, const result_info& info);

  virtual void on_checkpoint(const token& tok, std::size_t state_bytes,
                             const result_info& info);

  /// `attempt` counts from 1 within one renewal cycle; `left` is how much of
  /// the window was left when the answer came.
  virtual void on_renew(const token& tok, int attempt, duration left,
                        const result_info& info);

  virtual void on_release(const token& tok, exit_mode mode,
                          const result_info& info);

  virtual void on_read_checkpoint(const token& tok, const prior& found,
                                  const result_info& info);

  virtual void on_forget(const token& tok, const result_info& info);

  /// In addition, directly after the event of a Checkpoint, Renew, Release or
  /// Forget (spelled so) that was fenced.
  virtual void on_fenced(const token& tok, std::string_view operation);

  /// The window of a lease under managed renewal is about to close: `left` of
  /// it is left, and renewal failed `attempts` times since it last succeeded.
  virtual void on_window_low(const token& tok, duration left, int attempts,
                             std::string_view last_error);

  /// After on_window_low: a renewal was confirmed.
  virtual void on_window_safe(const token& tok, duration left);

  /// A lease under managed renewal ended against its holder's will.
  virtual void on_lost(const token& tok, const loss_report& report);
};

/// Learns of what the slots of a pool do. Same rules as lease_observer.
class pool_observer {
public:
  virtual ~pool_observer();

  /// The work is about to start.
  virtual void on_slot_acquired(const token& tok, const prior& found);

  /// The lease was taken away; the slot tries again at once.
  virtual void on_slot_lost(const token& tok, ec cause,
                            std::string_view detail);

  /// A run failed and the slot pauses. `tok` is empty if there was no lease.
  virtual void on_slot_backoff(std::string_view work_id, const token& tok,
                               ec cause, std::string_view detail,
                               duration pause);

  /// The run ended and its exit is recorded.
  virtual void on_slot_released(const token& tok, exit_mode mode);

  /// The work ID is done for good; the slot ended.
  virtual void on_slot_retired(const token& tok);

  /// A permanent error ended the slot.
  virtual void on_slot_dead(std::string_view work_id, ec cause,
                            std::string_view detail);

  /// An in-process work function did not return in its grace time and cannot
  /// be killed. Its token is dead; its slot waits for it.
  virtual void on_slot_stuck(const token& tok, duration since);
};

/// Learns of what a leader goes through. Same rules as lease_observer. Of each
/// election that was won, exactly one of on_lost, on_relinquished and neither
/// (the work failed, or was stopped) follows on_elected.
class leader_observer {
public:
  virtual ~leader_observer();

  /// The lease was granted, the work is about to start.
  virtual void on_elected(const token& tok, const prior& found);

  /// The work has ended because the lease was fenced or its window ran out.
  virtual void on_lost(const token& tok, ec cause, std::string_view detail);

  /// The work has ended and the lease was released, as finished or retired.
  virtual void on_relinquished(const token& tok, exit_mode mode);
};

/// Learns of sweeps that reached the store. Same rules as lease_observer.
class vacuum_observer {
public:
  virtual ~vacuum_observer();

  virtual void on_sweep(duration retention, bool include_expired,
                        std::uint64_t deleted, const result_info& info);
};

using vacuum_observer_ptr = std::shared_ptr<vacuum_observer>;

using lease_observer_ptr = std::shared_ptr<lease_observer>;

using pool_observer_ptr = std::shared_ptr<pool_observer>;

using leader_observer_ptr = std::shared_ptr<leader_observer>;

} // namespace leasehold
