// SPDX-License-Identifier: Apache-2.0
#include "leasehold/observer.hpp"

namespace leasehold {

lease_observer::~lease_observer() = default;

void lease_observer::on_acquire(std::string_view, const token&, const prior&,
                                const result_info&) {
}

void lease_observer::on_checkpoint(const token&, std::size_t,
                                   const result_info&) {
}

void lease_observer::on_renew(const token&, int, duration, const result_info&) {
}

void lease_observer::on_release(const token&, exit_mode, const result_info&) {
}

void lease_observer::on_read_checkpoint(const token&, const prior&,
                                        const result_info&) {
}

void lease_observer::on_forget(const token&, const result_info&) {
}

void lease_observer::on_fenced(const token&, std::string_view) {
}

void lease_observer::on_window_low(const token&, duration, int,
                                   std::string_view) {
}

void lease_observer::on_window_safe(const token&, duration) {
}

void lease_observer::on_lost(const token&, const loss_report&) {
}

pool_observer::~pool_observer() = default;

void pool_observer::on_slot_acquired(const token&, const prior&) {
}

void pool_observer::on_slot_lost(const token&, ec, std::string_view) {
}

void pool_observer::on_slot_backoff(std::string_view, const token&, ec,
                                    std::string_view, duration) {
}

void pool_observer::on_slot_released(const token&, exit_mode) {
}

void pool_observer::on_slot_retired(const token&) {
}

void pool_observer::on_slot_dead(std::string_view, ec, std::string_view) {
}

void pool_observer::on_slot_stuck(const token&, duration) {
}

leader_observer::~leader_observer() = default;

void leader_observer::on_elected(const token&, const prior&) {
}

void leader_observer::on_lost(const token&, ec, std::string_view) {
}

void leader_observer::on_relinquished(const token&, exit_mode) {
}

vacuum_observer::~vacuum_observer() = default;

void vacuum_observer::on_sweep(duration, bool, std::uint64_t,
                               const result_info&) {
}

} // namespace leasehold
