// SPDX-License-Identifier: Apache-2.0
#include "leasehold/event_sender.hpp"

#include "leasehold/internal/enum_names.hpp"

namespace leasehold {

namespace {

constexpr internal::enum_names<10> lease_events{
  "lease_event_kind",
  {"acquire", "checkpoint", "renew", "release", "read_checkpoint", "forget",
   "fenced", "window_low", "window_safe", "lost"}};

constexpr internal::enum_names<3> leader_events{
  "leader_event_kind", {"elected", "lost", "relinquished"}};

constexpr internal::enum_names<7> slot_events{
  "slot_event_kind",
  {"acquired", "lost", "backoff", "released", "retired", "dead", "stuck"}};

lease_event lease_event_of(lease_event_kind kind, const token& tok) {
  lease_event result;
  result.kind = kind;
  result.work_id = tok.work_id();
  result.tok = tok;
  return result;
}

lease_event lease_event_of(lease_event_kind kind, const token& tok,
                           const result_info& info) {
  auto result = lease_event_of(kind, tok);
  result.code = info.code;
  result.also = info.also;
  result.detail = info.detail;
  result.took = info.took;
  return result;
}

slot_event slot_event_of(slot_event_kind kind, const token& tok) {
  slot_event result;
  result.kind = kind;
  result.work_id = tok.work_id();
  result.tok = tok;
  return result;
}

template <class Event>
void add(Event& to, const prior& found) {
  to.exit = found.exit;
  to.prior_holder = found.holder_id;
  to.state_bytes = found.state ? found.state->size() : 0;
}

} // namespace

std::string to_string(lease_event_kind x) {
  return lease_events.to_string(x);
}

bool from_string(std::string_view name, lease_event_kind& x) {
  return lease_events.from_string(name, x);
}

bool from_integer(std::uint8_t raw, lease_event_kind& x) {
  return lease_events.from_integer(raw, x);
}

std::string to_string(slot_event_kind x) {
  return slot_events.to_string(x);
}

bool from_string(std::string_view name, slot_event_kind& x) {
  return slot_events.from_string(name, x);
}

bool from_integer(std::uint8_t raw, slot_event_kind& x) {
  return slot_events.from_integer(raw, x);
}

std::string to_string(leader_event_kind x) {
  return leader_events.to_string(x);
}

bool from_string(std::string_view name, leader_event_kind& x) {
  return leader_events.from_string(name, x);
}

bool from_integer(std::uint8_t raw, leader_event_kind& x) {
  return leader_events.from_integer(raw, x);
}

event_sender::event_sender(const caf::actor& receiver)
  : receiver_(caf::actor_cast<caf::weak_actor_ptr>(receiver)) {
  // nop
}

template <class MakeEvent>
void event_sender::send(MakeEvent make) const noexcept {
  try {
    if (auto receiver = receiver_.lock())
      post_anon(caf::actor_cast<caf::actor>(receiver), make());
  } catch (...) {
    // There is nobody to tell: an operation must not fail for lack of memory
    // to report it.
  }
}

void event_sender::on_acquire(std::string_view work_id, const token& tok,
                              const prior& found, const result_info& info) {
  send([&] {
    auto event = lease_event_of(lease_event_kind::acquire, tok, info);
    event.work_id = work_id;
    add(event, found);
    return event;
  });
}

void event_sender::on_checkpoint(const token& tok, std::size_t state_bytes,
                                 const result_info& info) {
  send([&] {
    auto event = lease_event_of(lease_event_kind::checkpoint, tok, info);
    event.state_bytes = state_bytes;
    return event;
  });
}

void event_sender::on_renew(const token& tok, int attempt, duration left,
                            const result_info& info) {
  send([&] {
    auto event = lease_event_of(lease_event_kind::renew, tok, info);
    event.attempt = attempt;
    event.window_left = left;
    return event;
  });
}

void event_sender::on_release(const token& tok, exit_mode mode,
                              const result_info& info) {
  send([&] {
    auto event = lease_event_of(lease_event_kind::release, tok, info);
    event.exit = mode;
    return event;
  });
}

void event_sender::on_read_checkpoint(const token& tok, const prior& found,
                                      const result_info& info) {
  send([&] {
    auto event = lease_event_of(lease_event_kind::read_checkpoint, tok, info);
    add(event, found);
    return event;
  });
}

void event_sender::on_forget(const token& tok, const result_info& info) {
  send([&] { return lease_event_of(lease_event_kind::forget, tok, info); });
}

void event_sender::on_fenced(const token& tok, std::string_view operation) {
  send([&] {
    auto event = lease_event_of(lease_event_kind::fenced, tok);
    event.code = ec::fenced;
    event.operation = operation;
    return event;
  });
}

void event_sender::on_window_low(const token& tok, duration left, int attempts,
                                 std::string_view last_error) {
  send([&] {
    auto event = lease_event_of(lease_event_kind::window_low, tok);
    event.window_left = left;
    event.attempt = attempts;
    event.detail = last_error;
    return event;
  });
}

void event_sender::on_window_safe(const token& tok, duration left) {
  send([&] {
    auto event = lease_event_of(lease_event_kind::window_safe, tok);
    event.window_left = left;
    return event;
  });
}

void event_sender::on_lost(const token& tok, const loss_report& report) {
  send([&] {
    auto event = lease_event_of(lease_event_kind::lost, tok);
    event.code = report.cause;
    event.also = report.also;
    event.attempt = static_cast<std::int32_t>(report.attempts.size());
    event.detail = report.last_error;
    event.silent_for = report.silent_for;
    return event;
  });
}

void event_sender::on_slot_acquired(const token& tok, const prior& found) {
  send([&] {
    auto event = slot_event_of(slot_event_kind::acquired, tok);
    add(event, found);
    return event;
  });
}

void event_sender::on_slot_lost(const token& tok, ec cause,
                                std::string_view detail) {
  send([&] {
    auto event = slot_event_of(slot_event_kind::lost, tok);
    event.code = cause;
    event.detail = detail;
    return event;
  });
}

void event_sender::on_slot_backoff(std::string_view work_id, const token& tok,
                                   ec cause, std::string_view detail,
                                   duration pause) {
  send([&] {
    auto event = slot_event_of(slot_event_kind::backoff, tok);
    event.work_id = work_id;
    event.code = cause;
    event.detail = detail;
    event.span = pause;
    return event;
  });
}

void event_sender::on_slot_released(const token& tok, exit_mode mode) {
  send([&] {
    auto event = slot_event_of(slot_event_kind::released, tok);
    event.exit = mode;
    return event;
  });
}

void event_sender::on_slot_retired(const token& tok) {
  send([&] { return slot_event_of(slot_event_kind::retired, tok); });
}

void event_sender::on_slot_dead(std::string_view work_id, ec cause,
                                std::string_view detail) {
  send([&] {
    auto event = slot_event_of(slot_event_kind::dead, token{});
    event.work_id = work_id;
    event.code = cause;
    event.detail = detail;
    return event;
  });
}

void event_sender::on_slot_stuck(const token& tok, duration since) {
  send([&] {
    auto event = slot_event_of(slot_event_kind::stuck, tok);
    event.span = since;
    return event;
  });
}

void event_sender::on_elected(const token& tok, const prior& found) {
  send([&] {
    leader_event event;
    event.tok = tok;
    event.exit = found.exit;
    event.prior_holder = found.holder_id;
    return event;
  });
}

void event_sender::on_lost(const token& tok, ec cause,
                           std::string_view detail) {
  send([&] {
    leader_event event;
    event.kind = leader_event_kind::lost;
    event.tok = tok;
    event.code = cause;
    event.detail = detail;
    return event;
  });
}

void event_sender::on_relinquished(const token& tok, exit_mode mode) {
  send([&] {
    leader_event event;
    event.kind = leader_event_kind::relinquished;
    event.tok = tok;
    event.exit = mode;
    return event;
  });
}

void event_sender::on_sweep(duration retention, bool include_expired,
                            std::uint64_t deleted, const result_info& info) {
  send([&] {
    sweep_event event;
    event.retention = retention;
    event.include_expired = include_expired;
    event.deleted = deleted;
    event.code = info.code;
    event.also = info.also;
    event.detail = info.detail;
    event.took = info.took;
    return event;
  });
}

std::shared_ptr<event_sender> send_events_to(const caf::actor& receiver) {
  return std::make_shared<event_sender>(receiver);
}

} // namespace leasehold
