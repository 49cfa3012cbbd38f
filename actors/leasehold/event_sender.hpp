// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/caf.hpp"
#include "leasehold/messages.hpp"
#include "leasehold/observer.hpp"

#include <memory>

namespace leasehold {

/// An observer of leases, pools, leaders and vacuums that sends what it sees to
/// an actor, as lease_event, slot_event, leader_event and sweep_event:
///
///     auto events = send_events_to(listener);
///     lease_options.observer = pool_options.observer = events;
///
/// Events of one source (a LEASE, its RENEWAL, a slot, a VACUUM) arrive in the
/// order in which they happened; the receiver may be remote.
///
/// Never blocks and never throws: if there is no memory for an event, it is
/// lost. A receiver that is slower than its sources has a growing mailbox.
///
/// It does not keep the receiver alive, so that the receiver may own what it
/// listens to; once it is gone, events are dropped. Thread-safe.
class event_sender final : public lease_observer,
                           public pool_observer,
                           public leader_observer,
                           public vacuum_observer {
public:
  explicit event_sender(const caf::actor& receiver);

  void on_acquire(std::string_view work_id, const token& tok,
                  const prior& found, const result_info& info) override;

  void on_checkpoint(const token& tok, std::size_t state_bytes,
                     const result_info& info) override;

  void on_renew(const token& tok, int attempt, duration left,
                const result_info& info) override;

  void on_release(const token& tok, exit_mode mode,
                  const result_info& info) override;

  void on_read_checkpoint(const token& tok, const prior& found,
                          const result_info& info) override;

  void on_forget(const token& tok, const result_info& info) override;

  void on_fenced(const token& tok, std::string_view operation) override;

  void on_window_low(const token& tok, duration left, int attempts,
                     std::string_view last_error) override;

  void on_window_safe(const token& tok, duration left) override;

  void on_lost(const token& tok, const loss_report& report) override;

  void on_slot_acquired(const token& tok, const prior& found) override;

  void on_slot_lost(const token& tok, ec cause,
                    std::string_view detail) override;

  void on_slot_backoff(std::string_view work_id, const token& tok, ec cause,
                       std::string_view detail, duration pause) override;

  void on_slot_released(const token& tok, exit_mode mode) override;

  void on_slot_retired(const token& tok) override;

  void on_slot_dead(std::string_view work_id, ec cause,
                    std::string_view detail) override;

  void on_slot_stuck(const token& tok, duration since) override;

  void on_elected(const token& tok, const prior& found) override;

  void on_lost(const token& tok, ec cause, std::string_view detail) override;

  void on_relinquished(const token& tok, exit_mode mode) override;

  void on_sweep(duration retention, bool include_expired, std::uint64_t deleted,
                const result_info& info) override;

private:
  template <class MakeEvent>
  void send(MakeEvent make) const noexcept;

  caf::weak_actor_ptr receiver_;
};

/// An event_sender, ready to be assigned to all kinds of observer.
std::shared_ptr<event_sender> send_events_to(const caf::actor& receiver);

} // namespace leasehold
