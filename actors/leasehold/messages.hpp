// SPDX-License-Identifier: Apache-2.0
//
// Every interface of leasehold's actors, one comment per message. Errors are
// ec codes; error.hpp says what to do about each.
//
// What crosses the network is the backend_actor interface, and events. All
// other messages stay inside one process: they carry windows, which only mean
// something beside the clock they were made from.
#pragma once

#include "leasehold/backend/store.hpp"
#include "leasehold/caf.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/events.hpp"
#include "leasehold/lease_window.hpp"
#include "leasehold/token.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace leasehold {

/// A point on CAF's actor clock, in nanoseconds, for messages. 0 = no limit.
using actor_time = std::int64_t;

// -- BACKEND, ROUTER ----------------------------------------------------------

/// Operations for a store. They are not started after `not_after`: the outcome
/// is then deadline_exceeded. An acquisition that succeeded but ended too late
/// is undone and answered so, too.
struct store_request {
  std::vector<backend::operation> ops;
  actor_time not_after = 0;
};

/// One outcome per operation, in order.
struct store_reply {
  std::vector<backend::outcome> outcomes;
};

struct list_request {
  backend::list_query query;
  actor_time not_after = 0;
};

struct sweep_request {
  backend::sweep_query query;
  actor_time not_after = 0;
};

/// Serializes access to a store. What the store answers is inside the reply; a
/// request fails only if the actor is gone or the caller's own timeout passes.
using backend_actor
  = typed_actor<caf::result<store_reply>(store_request),
                caf::result<backend::listing>(list_request),
                caf::result<backend::sweep_result>(sweep_request)>;

// -- HOLD ---------------------------------------------------------------------

/// Asks a HOLD for its token.
struct get_token {};

/// One held lease as an actor: monitor it. It quits with fenced,
/// lease_expired or lease_window_exhausted when the lease is lost, with its
/// LEASE's reason when that ends, and normally after stop or release.
using hold_actor = typed_actor<caf::result<token>(get_token)>;

// -- LEASE --------------------------------------------------------------------

struct acquire_request {
  std::string work_id;

  /// Wait until the lease is free instead of failing with lease_held. Waiters
  /// of one LEASE for one work ID are served in order.
  bool wait = false;

  /// How often to look while waiting. Zero or less means 2 s. If the store
  /// says that the lease ends sooner, the next look is right then.
  duration poll{0};

  /// Each poll may come up to so much later, so that the polls of thousands of
  /// callers meet in one statement.
  duration spread{0};

  /// Give up after so long with deadline_exceeded. Zero = no limit beyond that
  /// of the single store call. A grant that comes later is released at once.
  duration timeout{0};

  /// Start managed renewal together with the grant. Otherwise the lease lapses
  /// after its ttl, and its HOLD ends, unless it is renewed or kept by hand.
  bool managed = true;

  /// Chosen by the caller to name this call in cancel_acquire; 0 = not named.
  std::uint64_t ticket = 0;
};

/// Ends a waiting or running acquire of the same ticket with `cancelled`, all
/// of them if there are several. A grant that was already on its way is
/// released at once. Unknown tickets are ignored.
struct cancel_acquire {
  std::uint64_t ticket = 0;

  /// Rather let an attempt that is on its way decide: the call is then
  /// answered with its grant, if it brings one.
  bool after_attempt = false;
};

/// What a holder gets.
struct grant {
  token tok;
  prior found;
  hold_actor hold;
  lease_window_ptr window;
};

/// Starts managed renewal for a token that this LEASE granted unmanaged.
struct keep_request {
  token tok;
};

/// Ends managed renewal and the HOLD, normally and without waiting for a
/// renewal on its way. The lease itself stays until it lapses or is released.
/// Repeating it, or stopping what was lost, is harmless.
struct stop_request {
  token tok;
};

struct read_request {
  token tok;
};

/// Stores progress and extends the lease, both or neither.
struct checkpoint_request {
  token tok;
  /// Absent or empty clears the stored state.
  std::optional<std::string> state;
};

struct renew_request {
  token tok;
};

/// Ends managed renewal, then declares how this holder's time ended.
struct release_request {
  token tok;
  exit_mode exit = exit_mode::none;
};

/// Deletes the lease's record.
struct forget_request {
  token tok;
};

/// The operation took effect.
struct confirmation {
  /// Expiry by the store's clock, microseconds since the Unix epoch.
  std::int64_t expires_us = 0;
};

/// The API of one holder. Ends by exit message; its HOLDs then quit with the
/// same reason, and leases that were not released lapse.
using lease_actor = typed_actor<
  // lease_held, deadline_exceeded, cancelled, invalid_argument, unavailable,
  // unknown_outcome (repeat: the repeat finds out), store_failed
  caf::result<grant>(acquire_request),
  // never fails
  caf::result<void>(cancel_acquire),
  // fenced, lease_expired or lease_window_exhausted if it is lost already
  caf::result<confirmation>(keep_request),
  // never fails
  caf::result<void>(stop_request),
  // fenced and the store's errors
  caf::result<prior>(read_request),
  // fenced, lease_expired, lease_window_exhausted (this process gave the lease
  // up and does not revive it), state_too_large, and the store's errors
  caf::result<confirmation>(checkpoint_request),
  // fenced, lease_expired, lease_window_exhausted, and the store's errors
  caf::result<confirmation>(renew_request),
  // invalid_exit_mode, fenced, lease_expired, and the store's errors
  caf::result<confirmation>(release_request),
  // fenced and the store's errors
  caf::result<confirmation>(forget_request)>;

// -- RENEWAL ------------------------------------------------------------------

/// Starts to watch the window of a lease and, if it is managed, to keep it
/// alive.
struct keep {
  token tok;
  hold_actor hold;
  lease_window_ptr window;
  bool managed = true;
};

/// Stops both. What is on its way has no effect any more.
struct drop {
  std::int64_t number = 0;

  /// Unless none: the lease is lost, and its HOLD is to end for this reason.
  ec cause = ec::none;
  ec also = ec::none;
  std::string detail;
};

/// Keeps all leases of one LEASE alive, and ends the HOLDs of those that are
/// lost. Ends with it.
using renewal_actor
  = typed_actor<caf::result<void>(keep), caf::result<void>(drop)>;

// -- WORKER, SLOT, RUNNER, LEADER, POOL ---------------------------------------

/// How work ended.
struct work_result {
  /// none = success; retire = done for good; work_permanent = no attempt will
  /// help; fenced = the work noticed; any other code = this run failed.
  ec code = ec::none;

  /// For people, in case of a failure.
  std::string detail;

  /// Absent leaves the stored state as it is; empty clears it.
  std::optional<std::string> state;
};

/// How far a wish to end goes. A later, harsher wish wins.
enum class stop_mode : std::uint8_t {
  /// Nothing new is started; work that runs goes on to its own end.
  drain,
  /// Work that runs is asked to stop, and ended when its grace has passed.
  stop,
  /// Work that runs is ended at once.
  now,
};

std::string to_string(stop_mode x);

bool from_string(std::string_view name, stop_mode& x);

bool from_integer(std::uint8_t raw, stop_mode& x);

/// Asks a SLOT to end.
struct slot_stop {
  stop_mode how = stop_mode::stop;
};

/// Where a worker reports to. A worker may also just quit: normally for
/// success, with `retire` or another error as exit reason otherwise.
using slot_actor
  = typed_actor<caf::result<void>(work_result), caf::result<void>(slot_stop)>;

/// Acquires a unit of work, runs it once, stores its state and releases it.
struct run_work {
  std::string work_id;

  /// As in acquire_request.
  bool wait = false;
  duration poll{0};
  duration timeout{0};

  /// Chosen by the caller to name this call in stop_runs; 0 = not named.
  std::uint64_t ticket = 0;
};

/// Ends the runs with this ticket, all runs if it is 0. Each is answered when
/// it has ended: what the work then reports decides.
struct stop_runs {
  std::uint64_t ticket = 0;
  stop_mode how = stop_mode::stop;
};

/// A run that succeeded.
struct run_result {
  /// What was recorded for the successor: finished or retired.
  exit_mode exit = exit_mode::none;

  /// The fencing number of the run.
  std::int64_t number = 0;
};

/// Runs work once per call; any number of calls at a time.
using runner_actor = typed_actor<
  // what acquire_request answers; or else what the work reported; fenced and
  // lease_window_exhausted if the lease was lost; the error of the final
  // checkpoint or release if the work itself succeeded
  caf::result<run_result>(run_work),
  // never fails
  caf::result<void>(stop_runs)>;

/// Takes part in the election of `name` once: leads, if the lease is free,
/// until the work has ended.
struct elect {
  std::string name;

  /// As in acquire_request.
  bool wait = false;
  duration poll{0};
  duration timeout{0};

  /// Chosen by the caller to name this call in resign; 0 = not named.
  std::uint64_t ticket = 0;
};

/// Ends the elections with this ticket, all if it is 0, and all pauses.
struct resign {
  std::uint64_t ticket = 0;
  stop_mode how = stop_mode::stop;
};

/// Leads once per call. Answers late on purpose, so that a loop of calls does
/// not burn the store: after `idle` if somebody else leads, after `backoff` in
/// all other cases but fenced.
using leader_actor = typed_actor<
  // as run_work
  caf::result<run_result>(elect),
  // never fails
  caf::result<void>(resign)>;

/// Runs the pool. Answered when all slots have ended or the pool was stopped.
struct run_pool {};

struct pool_result {
  std::uint32_t retired = 0;
  std::uint32_t dead = 0;
};

/// Takes no more work and ends what runs, as `how` says. State is stored and
/// leases are released; run_pool is answered when all of that is done.
struct stop_pool {
  stop_mode how = stop_mode::stop;
};

/// Adds units of work; of a running pool they start at once. A unit that is
/// just being removed starts when that is done.
struct add_work {
  std::vector<std::string> work_ids;
};

/// Takes units of work out of the pool and ends them as `how` says. Answered
/// when they have ended. Does not disturb the others. A pool whose units were
/// all removed goes on running, for others may be added.
struct remove_work {
  std::vector<std::string> work_ids;
  stop_mode how = stop_mode::stop;
};

/// The units of an add_work are in.
struct added_work {
  std::uint32_t count = 0;
};

/// The units of a remove_work have ended.
struct removed_work {
  std::uint32_t count = 0;
};

struct get_active_slots {};

/// The work IDs whose work is executing.
struct active_slots {
  std::vector<std::string> work_ids;
};

/// A set of work IDs, each with a SLOT.
using pool_actor = typed_actor<
  // pool_all_slots_dead; pool_running if it runs already; cancelled if its
  // LEASE ended
  caf::result<pool_result>(run_pool),
  // never fails; harmless if it does not run
  caf::result<void>(stop_pool), caf::result<active_slots>(get_active_slots),
  // pool_empty_work_ids, pool_empty_work_id, pool_duplicate_work_id (stands
  // there twice, or in the pool already): then none is added
  caf::result<added_work>(add_work),
  // invalid_argument if one is not in the pool: then none is removed
  caf::result<removed_work>(remove_work)>;

struct assignment;

// -- VACUUM -------------------------------------------------------------------

/// Sweeps now, besides whatever the schedule says.
struct sweep_now {};

/// How many rows a sweep deleted.
struct swept {
  std::uint64_t deleted = 0;
};

/// Deletes the rows of work that is done for good, now and then.
using vacuum_actor = typed_actor<
  // the store's errors
  caf::result<swept>(sweep_now)>;

} // namespace leasehold

// Bound to this process: they carry windows or belong to one interface.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(leasehold::grant)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(leasehold::keep)

namespace leasehold::internal {

// Messages between our own actors; not part of any public interface.

/// A BACKEND, LEASE or POOL to itself: look at the queue.
struct flush {};

/// An alarm went off; the state says what for.
struct wake {};

/// RENEWAL to LEASE: this lease is lost.
struct lost {
  std::int64_t number = 0;
  std::string work_id;
};

/// POOL to SLOT: you may try to acquire.
struct slot_go {};

/// SLOT to POOL: I would like to try.
struct slot_wants {
  std::uint32_t index = 0;
};

enum class slot_phase : std::uint8_t {
  /// Waits for a permit, or for its pause to end.
  idle,
  acquiring,
  /// Its work executes.
  running,
  /// Stores the final state and releases.
  stopping,
  backoff,
  retired,
  dead,
  /// Ended because the pool was stopped.
  stopped,
};

std::string to_string(slot_phase x);

bool from_string(std::string_view name, slot_phase& x);

bool from_integer(std::uint8_t raw, slot_phase& x);

/// SLOT to POOL: my phase changed. `held` says whether I keep my permit.
struct slot_is {
  std::uint32_t index = 0;
  slot_phase phase = slot_phase::idle;
  bool permit = false;
};

/// SLOT to POOL: send me slot_go's turn after so long.
struct slot_sleeps {
  std::uint32_t index = 0;
  duration pause{0};
};

/// POOL to SLOT: your pause is over.
struct slot_wake {};

/// RUNNER to SLOT: one run, then end.
struct run_once {
  run_work call;
};

/// How a single run ended.
struct run_report {
  /// Empty if the lease was not granted.
  token tok;

  /// none = success.
  ec code = ec::none;
  ec also = ec::none;
  std::string detail;

  /// The exit that was stored, none if none was.
  exit_mode recorded = exit_mode::none;

  /// fenced or lease_window_exhausted if the lease was lost, else none.
  ec lost = ec::none;
};

} // namespace leasehold::internal

#ifndef LEASEHOLD_FIRST_TYPE_ID
/// Embedders whose own message types collide with ours define another value.
#  define LEASEHOLD_FIRST_TYPE_ID (caf::first_custom_type_id + 500)
#endif

CAF_BEGIN_TYPE_ID_BLOCK(leasehold, LEASEHOLD_FIRST_TYPE_ID)
  CAF_ADD_TYPE_ID(leasehold, (leasehold::ec))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::exit_mode))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::token))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::prior))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::backend::op_kind))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::backend::operation))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::backend::outcome))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::backend::list_query))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::backend::row))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::backend::listing))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::backend::sweep_query))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::backend::sweep_result))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::store_request))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::store_reply))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::list_request))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::sweep_request))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::get_token))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::acquire_request))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::cancel_acquire))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::grant))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::keep_request))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::stop_request))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::read_request))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::checkpoint_request))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::renew_request))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::release_request))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::forget_request))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::confirmation))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::keep))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::drop))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::work_result))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::stop_mode))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::slot_stop))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::run_work))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::stop_runs))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::run_result))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::elect))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::resign))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::run_pool))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::pool_result))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::stop_pool))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::add_work))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::remove_work))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::added_work))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::removed_work))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::get_active_slots))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::active_slots))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::internal::flush))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::internal::wake))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::internal::lost))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::internal::slot_go))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::internal::slot_wants))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::internal::slot_phase))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::internal::slot_is))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::internal::slot_sleeps))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::internal::slot_wake))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::internal::run_once))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::internal::run_report))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::sweep_now))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::swept))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::backend_actor))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::hold_actor))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::lease_actor))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::renewal_actor))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::slot_actor))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::runner_actor))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::leader_actor))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::pool_actor))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::vacuum_actor))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::lease_event_kind))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::lease_event))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::slot_event_kind))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::slot_event))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::leader_event_kind))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::leader_event))
  CAF_ADD_TYPE_ID(leasehold, (leasehold::sweep_event))
CAF_END_TYPE_ID_BLOCK(leasehold)

namespace leasehold {

template <class Inspector>
auto inspect(Inspector& f, token& x) {
  auto work_id = x.work_id();
  auto holder_id = x.holder_id();
  auto number = x.number();
  auto expires_us = x.expires_us();
  auto look = [&] {
    return fields(f, x, field("work_id", work_id),
                  field("holder_id", holder_id), field("number", number),
                  field("expires_us", expires_us));
  };
  // Others may look at `x` while it is only read.
  if constexpr (is_loading<Inspector>) {
    auto result = look();
    x = internal::token_access::make(std::move(work_id), std::move(holder_id),
                                     number, expires_us);
    return result;
  } else {
    return look();
  }
}

template <class Inspector>
auto inspect(Inspector& f, prior& x) {
  return fields(f, x, field("state", x.state), field("exit", x.exit),
                field("holder_id", x.holder_id));
}

namespace backend {

template <class Inspector>
auto inspect(Inspector& f, operation& x) {
  return fields(f, x, field("kind", x.kind), field("work_id", x.work_id),
                field("holder_id", x.holder_id), field("number", x.number),
                field("ttl", x.ttl), field("request", x.request),
                field("state", x.state), field("sequence", x.sequence),
                field("exit", x.exit), field("repeat", x.repeat));
}

template <class Inspector>
auto inspect(Inspector& f, outcome& x) {
  return fields(f, x, field("code", x.code), field("also", x.also),
                field("number", x.number), field("now_us", x.now_us),
                field("expires_us", x.expires_us),
                field("previous", x.previous), field("holder_id", x.holder_id),
                field("detail", x.detail));
}

template <class Inspector>
auto inspect(Inspector& f, list_query& x) {
  return fields(f, x, field("prefix", x.prefix), field("work_id", x.work_id),
                field("after", x.after), field("limit", x.limit),
                field("with_state", x.with_state));
}

template <class Inspector>
auto inspect(Inspector& f, row& x) {
  return fields(
    f, x, field("work_id", x.work_id), field("holder_id", x.holder_id),
    field("number", x.number), field("expires_us", x.expires_us),
    field("acquired_us", x.acquired_us), field("updated_us", x.updated_us),
    field("exit", x.exit), field("previous_exit", x.previous_exit),
    field("previous_holder_id", x.previous_holder_id),
    field("state_bytes", x.state_bytes), field("state", x.state));
}

template <class Inspector>
auto inspect(Inspector& f, listing& x) {
  return fields(f, x, field("code", x.code), field("also", x.also),
                field("now_us", x.now_us), field("rows", x.rows),
                field("detail", x.detail));
}

template <class Inspector>
auto inspect(Inspector& f, sweep_query& x) {
  return fields(f, x, field("retention", x.retention),
                field("include_expired", x.include_expired));
}

template <class Inspector>
auto inspect(Inspector& f, sweep_result& x) {
  return fields(f, x, field("code", x.code), field("also", x.also),
                field("deleted", x.deleted), field("detail", x.detail));
}

} // namespace backend

template <class Inspector>
auto inspect(Inspector& f, store_request& x) {
  return fields(f, x, field("ops", x.ops), field("not_after", x.not_after));
}

template <class Inspector>
auto inspect(Inspector& f, store_reply& x) {
  return fields(f, x, field("outcomes", x.outcomes));
}

template <class Inspector>
auto inspect(Inspector& f, list_request& x) {
  return fields(f, x, field("query", x.query), field("not_after", x.not_after));
}

template <class Inspector>
auto inspect(Inspector& f, sweep_request& x) {
  return fields(f, x, field("query", x.query), field("not_after", x.not_after));
}

template <class Inspector>
auto inspect(Inspector& f, get_token& x) {
  return fields(f, x);
}

template <class Inspector>
auto inspect(Inspector& f, acquire_request& x) {
  return fields(f, x, field("work_id", x.work_id), field("wait", x.wait),
                field("poll", x.poll), field("spread", x.spread),
                field("timeout", x.timeout), field("managed", x.managed),
                field("ticket", x.ticket));
}

template <class Inspector>
auto inspect(Inspector& f, cancel_acquire& x) {
  return fields(f, x, field("ticket", x.ticket),
                field("after_attempt", x.after_attempt));
}

template <class Inspector>
auto inspect(Inspector& f, keep_request& x) {
  return fields(f, x, field("tok", x.tok));
}

template <class Inspector>
auto inspect(Inspector& f, stop_request& x) {
  return fields(f, x, field("tok", x.tok));
}

template <class Inspector>
auto inspect(Inspector& f, read_request& x) {
  return fields(f, x, field("tok", x.tok));
}

template <class Inspector>
auto inspect(Inspector& f, checkpoint_request& x) {
  return fields(f, x, field("tok", x.tok), field("state", x.state));
}

template <class Inspector>
auto inspect(Inspector& f, renew_request& x) {
  return fields(f, x, field("tok", x.tok));
}

template <class Inspector>
auto inspect(Inspector& f, release_request& x) {
  return fields(f, x, field("tok", x.tok), field("exit", x.exit));
}

template <class Inspector>
auto inspect(Inspector& f, forget_request& x) {
  return fields(f, x, field("tok", x.tok));
}

template <class Inspector>
auto inspect(Inspector& f, confirmation& x) {
  return fields(f, x, field("expires_us", x.expires_us));
}

template <class Inspector>
auto inspect(Inspector& f, drop& x) {
  return fields(f, x, field("number", x.number), field("cause", x.cause),
                field("also", x.also), field("detail", x.detail));
}

template <class Inspector>
auto inspect(Inspector& f, work_result& x) {
  return fields(f, x, field("code", x.code), field("detail", x.detail),
                field("state", x.state));
}

template <class Inspector>
auto inspect(Inspector& f, slot_stop& x) {
  return fields(f, x, field("how", x.how));
}

template <class Inspector>
auto inspect(Inspector& f, run_work& x) {
  return fields(f, x, field("work_id", x.work_id), field("wait", x.wait),
                field("poll", x.poll), field("timeout", x.timeout),
                field("ticket", x.ticket));
}

template <class Inspector>
auto inspect(Inspector& f, stop_runs& x) {
  return fields(f, x, field("ticket", x.ticket), field("how", x.how));
}

template <class Inspector>
auto inspect(Inspector& f, run_result& x) {
  return fields(f, x, field("exit", x.exit), field("number", x.number));
}

template <class Inspector>
auto inspect(Inspector& f, elect& x) {
  return fields(f, x, field("name", x.name), field("wait", x.wait),
                field("poll", x.poll), field("timeout", x.timeout),
                field("ticket", x.ticket));
}

template <class Inspector>
auto inspect(Inspector& f, resign& x) {
  return fields(f, x, field("ticket", x.ticket), field("how", x.how));
}

template <class Inspector>
auto inspect(Inspector& f, run_pool& x) {
  return fields(f, x);
}

template <class Inspector>
auto inspect(Inspector& f, pool_result& x) {
  return fields(f, x, field("retired", x.retired), field("dead", x.dead));
}

template <class Inspector>
auto inspect(Inspector& f, stop_pool& x) {
  return fields(f, x, field("how", x.how));
}

template <class Inspector>
auto inspect(Inspector& f, add_work& x) {
  return fields(f, x, field("work_ids", x.work_ids));
}

template <class Inspector>
auto inspect(Inspector& f, remove_work& x) {
  return fields(f, x, field("work_ids", x.work_ids), field("how", x.how));
}

template <class Inspector>
auto inspect(Inspector& f, added_work& x) {
  return fields(f, x, field("count", x.count));
}

template <class Inspector>
auto inspect(Inspector& f, removed_work& x) {
  return fields(f, x, field("count", x.count));
}

template <class Inspector>
auto inspect(Inspector& f, get_active_slots& x) {
  return fields(f, x);
}

template <class Inspector>
auto inspect(Inspector& f, active_slots& x) {
  return fields(f, x, field("work_ids", x.work_ids));
}

template <class Inspector>
auto inspect(Inspector& f, sweep_now& x) {
  return fields(f, x);
}

template <class Inspector>
auto inspect(Inspector& f, swept& x) {
  return fields(f, x, field("deleted", x.deleted));
}

namespace internal {

template <class Inspector>
auto inspect(Inspector& f, flush& x) {
  return fields(f, x);
}

template <class Inspector>
auto inspect(Inspector& f, wake& x) {
  return fields(f, x);
}

template <class Inspector>
auto inspect(Inspector& f, lost& x) {
  return fields(f, x, field("number", x.number), field("work_id", x.work_id));
}

template <class Inspector>
auto inspect(Inspector& f, slot_go& x) {
  return fields(f, x);
}

template <class Inspector>
auto inspect(Inspector& f, slot_wants& x) {
  return fields(f, x, field("index", x.index));
}

template <class Inspector>
auto inspect(Inspector& f, slot_is& x) {
  return fields(f, x, field("index", x.index), field("phase", x.phase),
                field("permit", x.permit));
}

template <class Inspector>
auto inspect(Inspector& f, slot_sleeps& x) {
  return fields(f, x, field("index", x.index), field("pause", x.pause));
}

template <class Inspector>
auto inspect(Inspector& f, slot_wake& x) {
  return fields(f, x);
}

template <class Inspector>
auto inspect(Inspector& f, run_once& x) {
  return fields(f, x, field("call", x.call));
}

template <class Inspector>
auto inspect(Inspector& f, run_report& x) {
  return fields(f, x, field("tok", x.tok), field("code", x.code),
                field("also", x.also), field("detail", x.detail),
                field("recorded", x.recorded), field("lost", x.lost));
}

} // namespace internal

} // namespace leasehold
