// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/duration.hpp"
#include "leasehold/error.hpp"
#include "leasehold/token.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
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

  /// A lease under managed renewal ended against its holder's will. `cause` is
  /// fenced, lease_expired or lease_window_exhausted; `last_error` describes
  /// the last failed renewal, `silent_for` is the time since the last
  /// confirmation.
  virtual void on_lost(const token& tok, ec cause, std::string_view last_error,
                       duration silent_for);
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

} // namespace leasehold
