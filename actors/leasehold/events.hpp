// SPDX-License-Identifier: Apache-2.0
//
// What observers see, as messages: see event_sender.hpp. They are plain data
// and may cross the network. None holds state, only its size.
#pragma once

#include "leasehold/caf.hpp"
#include "leasehold/duration.hpp"
#include "leasehold/error.hpp"
#include "leasehold/exit_mode.hpp"
#include "leasehold/token.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace leasehold {

/// What a lease_event tells of: the members of lease_observer.
enum class lease_event_kind : std::uint8_t {
  /// `work_id`, `exit`, `prior_holder`, `state_bytes` (of what was found).
  acquire,
  /// `state_bytes`
  checkpoint,
  /// `attempt`, `window_left`
  renew,
  /// `exit`
  release,
  /// `exit`, `prior_holder`, `state_bytes` (of what was found)
  read_checkpoint,
  forget,
  /// `operation`
  fenced,
  /// `window_left`, `attempt` (how many failed), `detail` (the last of them)
  window_low,
  /// `window_left`
  window_safe,
  /// `code` is the cause, `also` says more, `attempt` (how many failed),
  /// `detail` (the last of them), `silent_for`
  lost,
};

inline constexpr auto last_lease_event_kind = lease_event_kind::lost;

/// "acquire", "read_checkpoint", ...
std::string to_string(lease_event_kind x);

bool from_string(std::string_view name, lease_event_kind& x);

bool from_integer(std::uint8_t raw, lease_event_kind& x);

/// One event of a lease. Which fields count besides the first four depends on
/// `kind`; the others have their default values.
struct lease_event {
  lease_event_kind kind = lease_event_kind::acquire;

  std::string work_id;

  /// Empty if there is none.
  token tok;

  /// How it ended; `none` is success.
  ec code = ec::none;
  ec also = ec::none;

  /// For people; holds neither state nor credentials.
  std::string detail;

  /// How long the one store call took, by the actor clock; all but fenced and
  /// lost.
  duration took{0};

  std::uint64_t state_bytes = 0;

  /// renew: counts from 1 within one renewal cycle.
  std::int32_t attempt = 0;

  duration window_left{0};

  duration silent_for{0};

  /// release: what was declared. Otherwise how the predecessor ended.
  exit_mode exit = exit_mode::none;

  std::string prior_holder;

  /// "Checkpoint", "Renew", "Release" or "Forget".
  std::string operation;

  friend bool operator==(const lease_event&, const lease_event&) = default;
};

/// What a slot_event tells of: the members of pool_observer.
enum class slot_event_kind : std::uint8_t {
  /// `exit`, `prior_holder`, `state_bytes`
  acquired,
  /// `code`, `detail`
  lost,
  /// `code`, `detail`, `span` (of the pause)
  backoff,
  /// `exit`
  released,
  retired,
  /// `code`, `detail`
  dead,
  /// `span` (since when)
  stuck,
};

inline constexpr auto last_slot_event_kind = slot_event_kind::stuck;

/// "acquired", "lost", ...
std::string to_string(slot_event_kind x);

bool from_string(std::string_view name, slot_event_kind& x);

bool from_integer(std::uint8_t raw, slot_event_kind& x);

/// One event of a slot. Which fields count besides the first three depends on
/// `kind`; the others have their default values.
struct slot_event {
  slot_event_kind kind = slot_event_kind::acquired;

  std::string work_id;

  /// Empty if there is none.
  token tok;

  ec code = ec::none;

  /// For people; holds neither state nor credentials.
  std::string detail;

  duration span{0};

  /// released: what was declared. acquired: how the predecessor ended.
  exit_mode exit = exit_mode::none;

  std::string prior_holder;

  std::uint64_t state_bytes = 0;

  friend bool operator==(const slot_event&, const slot_event&) = default;
};

/// What a leader_event tells of: the members of leader_observer.
enum class leader_event_kind : std::uint8_t {
  /// `exit` (of the predecessor), `prior_holder`
  elected,
  /// `code`, `detail`
  lost,
  /// `exit`
  relinquished,
};

inline constexpr auto last_leader_event_kind = leader_event_kind::relinquished;

/// "elected", "lost", "relinquished"
std::string to_string(leader_event_kind x);

bool from_string(std::string_view name, leader_event_kind& x);

bool from_integer(std::uint8_t raw, leader_event_kind& x);

/// One event of a leader.
struct leader_event {
  leader_event_kind kind = leader_event_kind::elected;

  token tok;

  ec code = ec::none;

  /// For people; holds neither state nor credentials.
  std::string detail;

  exit_mode exit = exit_mode::none;

  std::string prior_holder;

  friend bool operator==(const leader_event&, const leader_event&) = default;
};

/// One sweep that reached the store.
struct sweep_event {
  duration retention{0};
  bool include_expired = false;
  std::uint64_t deleted = 0;
  ec code = ec::none;
  ec also = ec::none;

  /// For people; holds no credentials.
  std::string detail;

  /// How long the store call took, by the actor clock.
  duration took{0};

  friend bool operator==(const sweep_event&, const sweep_event&) = default;
};

template <class Inspector>
auto inspect(Inspector& f, lease_event& x) {
  return fields(
    f, x, field("kind", x.kind), field("work_id", x.work_id),
    field("tok", x.tok), field("code", x.code), field("also", x.also),
    field("detail", x.detail), field("took", x.took),
    field("state_bytes", x.state_bytes), field("attempt", x.attempt),
    field("window_left", x.window_left), field("silent_for", x.silent_for),
    field("exit", x.exit), field("prior_holder", x.prior_holder),
    field("operation", x.operation));
}

template <class Inspector>
auto inspect(Inspector& f, slot_event& x) {
  return fields(f, x, field("kind", x.kind), field("work_id", x.work_id),
                field("tok", x.tok), field("code", x.code),
                field("detail", x.detail), field("span", x.span),
                field("exit", x.exit), field("prior_holder", x.prior_holder),
                field("state_bytes", x.state_bytes));
}

template <class Inspector>
auto inspect(Inspector& f, leader_event& x) {
  return fields(f, x, field("kind", x.kind), field("tok", x.tok),
                field("code", x.code), field("detail", x.detail),
                field("exit", x.exit), field("prior_holder", x.prior_holder));
}

template <class Inspector>
auto inspect(Inspector& f, sweep_event& x) {
  return fields(f, x, field("retention", x.retention),
                field("include_expired", x.include_expired),
                field("deleted", x.deleted), field("code", x.code),
                field("also", x.also), field("detail", x.detail),
                field("took", x.took));
}

} // namespace leasehold
