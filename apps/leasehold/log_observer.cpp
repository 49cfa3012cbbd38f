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

// The store itself says that nothing is left to release.
bool is_end(ec code) {
  return code == ec::fenced || code == ec::lease_expired;
}

std::string elapsed(steady_clock::duration x) {
  return approximate(std::chrono::duration_cast<duration>(x));
}

} // namespace

void outage_log::note(call what, const result_info& info) {
  // A claim that is refused for good will be so for every unit of work; other
  // calls may have a reason of their own.
  auto failed = is_outage(info.code)
                || (what == call::acquire && info.code == ec::store_failed);
  // The common case, thousands of times a second, takes no lock.
  if (!failed && !doubtful_.load(std::memory_order_relaxed))
    return;
  std::lock_guard guard{mtx_};
  auto now = steady_clock::now();
  if (failed) {
    if (failures_++ == 0)
      since_ = now;
    last_failure_ = now;
    doubtful_ = true;
    // A disk that is nearly full refuses a big state and nothing else.
    auto may_be_alone = what == call::checkpoint && failures_ == 1;
    if (!may_be_alone)
      go_down(info);
  } else if (!down_) {
    doubtful_ = false;
    failures_ = 0;
  } else if (now - last_failure_ >= calm) {
    doubtful_ = down_ = false;
    log_.write(log_level::info, "store_up",
               {{"after", elapsed(last_failure_ - since_)},
                {"failed_calls", std::to_string(failures_)}});
    failures_ = 0;
  }
}

void outage_log::go_down(const result_info& info) {
  auto refused = info.code == ec::store_failed;
  auto level = refused ? log_level::error : log_level::warning;
  auto was_down = down_.exchange(true);
  if (!was_down || refused != refused_) {
    refused_ = refused;
    last_line_ = last_failure_;
    log_.write(
      level, "store_down",
      {{"error", to_string(info.code)}, {"detail", std::string{info.detail}}});
  } else if (last_failure_ - last_line_ >= std::chrono::minutes{1}) {
    last_line_ = last_failure_;
    log_.write(level, "store_down",
               {{"for", elapsed(last_failure_ - since_)},
                {"failed_calls", std::to_string(failures_)},
                {"detail", std::string{info.detail}}});
  }
}

void lease_log::on_acquire(std::string_view work_id, const token& tok,
                           const prior&, const result_info& info) {
  outages_.note(outage_log::call::acquire, info);
  if (info.code == ec::none)
    held_.grant(pool_, tok, ttl_);
  if (info.code != ec::lease_held)
    return;
  held_.end(work_id);
  // Contention is expected: not worth a line unless somebody looks for it.
  log_.write(log_level::debug, "held",
             {{"pool", pool_}, {"work", std::string{work_id}}});
}

void lease_log::on_checkpoint(const token& tok, std::size_t state_bytes,
                              const result_info& info) {
  outages_.note(outage_log::call::checkpoint, info);
  if (info.code == ec::none) {
    held_.extend(tok, ttl_);
    log_.write(log_level::debug, "checkpointed",
               {{"pool", pool_},
                {"work", tok.work_id()},
                {"token", number_of(tok)},
                {"bytes", std::to_string(state_bytes)}});
    return;
  }
  if (is_end(info.code))
    held_.end(tok);
  // An outage has a line of its own.
  auto known = is_outage(info.code) && outages_.down();
  log_.write(known ? log_level::debug : log_level::warning,
             "checkpoint_refused",
             {{"pool", pool_},
              {"work", tok.work_id()},
              {"token", number_of(tok)},
              {"error", to_string(info.code)},
              {"detail", std::string{info.detail}}});
}

void lease_log::on_renew(const token& tok, int attempt, duration left,
                         const result_info& info) {
  outages_.note(outage_log::call::other, info);
  if (info.code == ec::none)
    held_.extend(tok, ttl_);
  log_.write(log_level::debug,
             info.code == ec::none ? "renewed" : "renew_failing",
             {{"pool", pool_},
              {"work", tok.work_id()},
              {"attempt", std::to_string(attempt)},
              {"left", approximate(left)},
              {"error", to_string(info.code)}});
}

void lease_log::on_release(const token& tok, exit_mode,
                           const result_info& info) {
  outages_.note(outage_log::call::other, info);
  if (info.code == ec::none || is_end(info.code))
    held_.end(tok);
  else
    held_.blame(tok, info.detail.empty() ? std::string{explain(info.code)}
                                         : std::string{info.detail});
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
  held_.end(tok);
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
  // Before there is a lease, a store that is down concerns all work alike and
  // has a line of its own.
  auto is_known
    = tok.empty() && (is_outage(cause) || cause == ec::store_failed);
  auto level = is_known ? log_level::debug : log_level::warning;
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
