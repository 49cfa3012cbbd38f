// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/held_leases.hpp"
#include "leasehold/log.hpp"
#include "leasehold/observer.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

namespace leasehold::app {

/// Notes when the store stops answering, or refuses every claim, and when it
/// works again: one line each, and one a minute in between with a count,
/// however many leases ask. Shared by all pools of the process; thread-safe.
class outage_log {
public:
  enum class call : std::uint8_t { acquire, checkpoint, other };

  explicit outage_log(logger& log) : log_(log) {
    // nop
  }

  void note(call what, const result_info& info);

  bool down() const noexcept {
    return down_;
  }

private:
  void go_down(const result_info& info);

  logger& log_;
  std::atomic<bool> down_{false};
  /// There are failures that may be an outage.
  std::atomic<bool> doubtful_{false};
  /// The kind of failure that was written down last.
  bool refused_ = false;
  std::mutex mtx_;
  std::chrono::steady_clock::time_point since_;
  std::chrono::steady_clock::time_point last_line_;
  std::chrono::steady_clock::time_point last_failure_;
  std::uint64_t failures_ = 0;
};

/// Lease events of one pool in the log.
class lease_log : public lease_observer {
public:
  lease_log(logger& log, outage_log& outages, held_leases& held,
            std::string pool, duration ttl)
    : log_(log), outages_(outages), held_(held), pool_(std::move(pool)),
      ttl_(ttl) {
    // nop
  }

  void on_acquire(std::string_view work_id, const token& tok,
                  const prior& found, const result_info& info) override;

  void on_checkpoint(const token& tok, std::size_t state_bytes,
                     const result_info& info) override;

  void on_renew(const token& tok, int attempt, duration left,
                const result_info& info) override;

  void on_release(const token& tok, exit_mode mode,
                  const result_info& info) override;

  void on_window_low(const token& tok, duration left, int attempts,
                     std::string_view last_error) override;

  void on_window_safe(const token& tok, duration left) override;

  void on_lost(const token& tok, const loss_report& report) override;

private:
  logger& log_;
  outage_log& outages_;
  held_leases& held_;
  std::string pool_;
  duration ttl_;
};

/// Slot events of one pool in the log.
class pool_log : public pool_observer {
public:
  pool_log(logger& log, std::string pool) : log_(log), pool_(std::move(pool)) {
    // nop
  }

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

private:
  logger& log_;
  std::string pool_;
};

} // namespace leasehold::app
