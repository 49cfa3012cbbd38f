// SPDX-License-Identifier: Apache-2.0
#include "leasehold/log_observer.hpp"

namespace leasehold::app {

namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

// Sessions come back one by one: the store is up when no call has failed for
// as long as one of them may wait before it connects again.
constexpr auto calm = 1s;

std::string number_of(const token& tok) {
  return std::to_string(tok.number());
}

bool is_outage(ec code) {
  return code == ec::unavailable || code == ec::unknown_outcome
         || code == ec::deadline_exceeded;
}

std::string elapsed(steady_clock::duration x) {
  return approximate(std::chrono::duration_cast<duration>(x));
}

} // namespace

void outage_log::note(const result_info& info) {
  // The common case, thousands of times a second, takes no lock.
  auto failed = is_outage(info.code);
  if (!failed && !down_.load(std::memory_order_relaxed))
    return;
  std::lock_guard guard{mtx_};
  auto now = steady_clock::now();
  if (failed) {
    ++failures_;
    last_failure_ = now;
    if (!down_) {
      down_ = true;
      since_ = last_line_ = now;
      log_.write(log_level::warning, "store_down",
                 {{"error", to_string(info.code)},
                  {"detail", std::string{info.detail}}});
    } else if (now - last_line_ >= std::chrono::minutes{1}) {
      last_line_ = now;
      log_.write(log_level::warning, "store_down",
                 {{"for", elapsed(now - since_)},
                  {"failed_calls", std::to_string(failures_)},
                  {"detail", std::string{info.detail}}});
    }
  } else if (down_ && now - last_failure_ >= calm) {
    down_ = false;
    log_.write(log_level::info, "store_up",
               {{"after", elapsed(last_failure_ - since_)},
                {"failed_calls", std::to_string(failures_)}});
    failures_ = 0;
  }
}

void lease_log::on_acquire(std::string_view work_id, const token&, const prior&,
                           const result_info& info) {
  outages_.note(info);
  // Contention is expected: not worth a line unless somebody looks for it.
  if (info.code == ec::lease_held)
    log_.write(log_level::debug, "held",
               {{"pool", pool_}, {"work", std::string{work_id}}});
}

void lease_log::on_checkpoint(const token& tok, std::size_t state_bytes,
                              const result_info& info) {
  outages_.note(info);
  if (info.code == ec::none)
    log_.write(log_level::debug, "checkpointed",
               {{"pool", pool_},
                {"work", tok.work_id()},
                {"token", number_of(tok)},
                {"bytes", std::to_string(state_bytes)}});
  else
    log_.write(is_outage(info.code) ? log_level::debug : log_level::warning,
               "checkpoint_refused",
               {{"pool", pool_},
                {"work", tok.work_id()},
                {"token", number_of(tok)},
                {"error", to_string(info.code)},
                {"detail", std::string{info.detail}}});
}

void lease_log::on_renew(const token& tok, int attempt, duration left,
                         const result_info& info) {
  outages_.note(info);
  log_.write(log_level::debug,
             info.code == ec::none ? "renewed" : "renew_failing",
             {{"pool", pool_},
              {"work", tok.work_id()},
              {"attempt", std::to_string(attempt)},
              {"left", approximate(left)},
              {"error", to_string(info.code)}});
}

void lease_log::on_release(const token&, exit_mode, const result_info& info) {
  outages_.note(info);
}

void lease_log::on_window_low(const token& tok, duration left, int attempts,
                              std::string_view last_error) {
  log_.write(log_level::warning, "window_low",
             {{"pool", pool_},
              {"work", tok.work_id()},
              {"left", approximate(left)},
              {"attempts", std::to_string(attempts)},
              {"last_error", std::string{last_error}}});
}

void lease_log::on_window_safe(const token& tok, duration left) {
  log_.write(
    log_level::info, "window_safe",
    {{"pool", pool_}, {"work", tok.work_id()}, {"left", approximate(left)}});
}

void lease_log::on_lost(const token& tok, const loss_report& report) {
  log_.write(log_level::warning, "lost",
             {{"pool", pool_},
              {"work", tok.work_id()},
              {"token", number_of(tok)},
              {"reason", to_string(report.cause)},
              {"unconfirmed_for", approximate(report.silent_for)},
              {"attempts", std::to_string(report.attempts.size())},
              {"last_error", std::string{report.last_error}}});
}

void pool_log::on_slot_acquired(const token& tok, const prior& found) {
  // After a crash, and after a stop in the middle, somebody's work goes on.
  auto takeover = found.exit == exit_mode::expired;
  log_.write(
    log_level::info, takeover ? "takeover" : "acquired",
    {{"pool", pool_},
     {"work", tok.work_id()},
     {"token", number_of(tok)},
     {"prior", to_string(found.exit)},
     {"prior_holder", found.holder_id.empty() ? "-" : found.holder_id},
     {"state_bytes", std::to_string(found.state ? found.state->size() : 0)}});
}

void pool_log::on_slot_lost(const token& tok, ec cause, std::string_view) {
  log_.write(log_level::info, "stopped",
             {{"pool", pool_},
              {"work", tok.work_id()},
              {"token", number_of(tok)},
              {"reason", to_string(cause)}});
}

void pool_log::on_slot_backoff(std::string_view work_id, const token& tok,
                               ec cause, std::string_view detail,
                               duration pause) {
  // Before there is a lease, an outage concerns all work alike and has a line
  // of its own.
  auto level
    = tok.empty() && is_outage(cause) ? log_level::debug : log_level::warning;
  log_.write(level, "backoff",
             {{"pool", pool_},
              {"work", std::string{work_id}},
              {"token", tok.empty() ? "-" : number_of(tok)},
              {"reason", to_string(cause)},
              {"detail", std::string{detail}},
              {"again_in", approximate(pause)}});
}

void pool_log::on_slot_released(const token& tok, exit_mode mode) {
  log_.write(log_level::info, "released",
             {{"pool", pool_},
              {"work", tok.work_id()},
              {"token", number_of(tok)},
              {"exit", to_string(mode)}});
}

void pool_log::on_slot_retired(const token& tok) {
  log_.write(log_level::info, "retired",
             {{"pool", pool_}, {"work", tok.work_id()}});
}

void pool_log::on_slot_dead(std::string_view work_id, ec cause,
                            std::string_view detail) {
  log_.write(log_level::error, "dead",
             {{"pool", pool_},
              {"work", std::string{work_id}},
              {"reason", to_string(cause)},
              {"detail", std::string{detail}}});
}

void pool_log::on_slot_stuck(const token& tok, duration since) {
  log_.write(log_level::error, "stuck",
             {{"pool", pool_},
              {"work", tok.work_id()},
              {"token", number_of(tok)},
              {"for", approximate(since)}});
}

} // namespace leasehold::app
