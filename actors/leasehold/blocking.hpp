// SPDX-License-Identifier: Apache-2.0
//
// Leases for programs that know nothing of actors: plain calls that block.
//
//   blocking::client leases{"sqlite:///var/tmp/leases.db", {.holder_id = "a"}};
//   auto got = leases.run("nightly", [](blocking::work_context& job) {
//     ...
//     return blocking::succeeded();
//   });
//
// This header includes none of CAF, so it compiles fast. Programs that use CAF
// themselves take the actors instead; both may share a store, and a process.
#pragma once

#include "leasehold/backend/open.hpp"
#include "leasehold/backend/store.hpp"
#include "leasehold/clock.hpp"
#include "leasehold/duration.hpp"
#include "leasehold/error.hpp"
#include "leasehold/exit_mode.hpp"
#include "leasehold/identifier.hpp"
#include "leasehold/observer.hpp"
#include "leasehold/random.hpp"
#include "leasehold/retry.hpp"
#include "leasehold/token.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace leasehold {

class work_context;

} // namespace leasehold

namespace leasehold::blocking {

// -- how calls end ------------------------------------------------------------

/// Why a call failed. error.hpp says what to do about each code.
struct failure {
  /// `none` if nothing failed.
  ec code = ec::none;

  /// A second code that says more, or `none`: lease_expired beside
  /// lease_window_exhausted, schema_missing beside store_failed.
  ec also = ec::none;

  /// For people; holds neither state nor secrets.
  std::string detail;

  /// Whether one of the codes is `wanted`, or of the family that it names.
  bool matches(ec wanted) const noexcept {
    return leasehold::matches(code, wanted) || leasehold::matches(also, wanted);
  }
};

/// "lease_held: shard-7 is held by node-b for another 18s".
std::string render(const failure& x);

/// Thrown by the constructors of `client`, and by `result::value` of a call
/// that failed; nothing else here throws, but for std::bad_alloc and
/// std::system_error where the machine has no memory or no threads left.
class error : public std::runtime_error {
public:
  explicit error(failure why);

  const failure& why() const noexcept {
    return *why_;
  }

private:
  // Shared, so that copies do not throw.
  std::shared_ptr<const failure> why_;
};

/// What a call brought: a value, or a failure. Not convertible to bool: the
/// errors of the actor interface are true when something is wrong, and code
/// that moves between the two must not change its meaning.
template <class T>
class [[nodiscard]] result {
public:
  result(T value) : value_(std::move(value)) {
    // nop
  }

  result(failure why) : why_(std::move(why)) {
    // nop
  }

  bool ok() const noexcept {
    return value_.has_value();
  }

  /// Whether it failed with this code; see failure.
  bool matches(ec code) const noexcept {
    return !ok() && why_.matches(code);
  }

  /// Code `none` if it did not fail.
  const failure& why() const noexcept {
    return why_;
  }

  /// Throws `error` if the call failed.
  T& value() & {
    check();
    return *value_;
  }

  const T& value() const& {
    check();
    return *value_;
  }

  T&& value() && {
    check();
    return std::move(*value_);
  }

  /// @pre ok()
  T& operator*() noexcept {
    return *value_;
  }

  const T& operator*() const noexcept {
    return *value_;
  }

  T* operator->() noexcept {
    return &*value_;
  }

  const T* operator->() const noexcept {
    return &*value_;
  }

private:
  void check() const {
    if (!ok())
      throw blocking::error{why_};
  }

  std::optional<T> value_;
  failure why_;
};

template <>
class [[nodiscard]] result<void> {
public:
  result() = default;

  result(failure why) : why_(std::move(why)) {
    // nop
  }

  bool ok() const noexcept {
    return why_.code == ec::none;
  }

  bool matches(ec code) const noexcept {
    return !ok() && why_.matches(code);
  }

  const failure& why() const noexcept {
    return why_;
  }

  /// Throws `error` if the call failed.
  void value() const {
    if (!ok())
      throw blocking::error{why_};
  }

private:
  failure why_;
};

// -- work ---------------------------------------------------------------------

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

/// The run is complete. Absent state keeps the last checkpoint.
work_result succeeded(std::optional<std::string> state = std::nullopt);

/// The work ID is done for good. Whoever acquires it all the same finds
/// exit_mode::retired and decides.
work_result retired(std::optional<std::string> state = std::nullopt);

/// This run failed; another may do better.
work_result failed(std::string detail,
                   std::optional<std::string> state = std::nullopt);

/// No run will do better: a pool gives the work ID up.
work_result failed_for_good(std::string detail,
                            std::optional<std::string> state = std::nullopt);

/// The work was asked to stop and did; the state is partial.
work_result stopped(std::optional<std::string> state = std::nullopt);

/// What a work function sees. Belongs to the call of the function: used by the
/// thread that runs it, not kept.
class work_context {
public:
  /// Internal.
  explicit work_context(leasehold::work_context& real) : real_(real) {
    // nop
  }

  work_context(const work_context&) = delete;
  work_context& operator=(const work_context&) = delete;

  const leasehold::token& token() const noexcept;

  /// How far the predecessor came, and how it ended.
  const prior& found() const noexcept;

  /// True once a stop was asked for or the lease is lost. Look at it between
  /// steps; after a loss nothing that is written with this token will be
  /// accepted. Compares a clock: right at the first look after a pause.
  bool stop_requested() const noexcept;

  /// Time left in the lease window; zero once the lease is lost.
  duration window_left() const noexcept;

  /// Blocks for `pause`, less if work must stop. Returns whether the whole
  /// pause passed.
  bool wait_for(duration pause);

  /// Stores progress and extends the lease, both or neither; returns when it is
  /// stored. Absent or empty state clears what is stored. Errors: fenced,
  /// lease_expired, lease_window_exhausted (return from the function),
  /// state_too_large, and the store's.
  result<void> checkpoint(std::optional<std::string> state);

private:
  leasehold::work_context& real_;
};

/// Runs until it returns; must look at `stop_requested` often enough to return
/// soon after a stop, since a thread cannot be ended.
using work_function = std::function<work_result(work_context&)>;

// -- options ------------------------------------------------------------------

/// What a client is built from.
struct client_options {
  /// Who we are. Should differ between processes, but nothing depends on it:
  /// the fencing number decides, not the name.
  std::string holder_id;

  /// How long a crash may go unnoticed. At least 1 ms, at most 100 years.
  duration ttl = std::chrono::seconds{30};

  /// Interval between renewals. Zero or less means ttl / 2. A value of ttl or
  /// more is accepted and means that the window closes before the first one.
  duration renew{0};

  /// Taken off the lease window to allow for clocks that run at different
  /// rates. Absent means ttl / 100 + 10 ms. Cut to ttl / 4, also if given.
  std::optional<duration> margin{};

  /// Longest wait for one answer of the store. Above zero. Should be well below
  /// ttl, which is not checked: a store that is silent for longer than the
  /// window costs the lease.
  duration store_timeout = std::chrono::seconds{5};

  /// What a client that is built from a URL or a source does about the tables
  /// when it is built. Anything but `off` asks the store then.
  backend::schema_policy schema = backend::schema_policy::off;

  /// Sessions on the store for ordinary operations; with more than one there
  /// are two more, for renewals and for sweeps. 0 means one for stores with a
  /// single writer, two for others. Ignored by `memory:`, which has one.
  std::size_t sessions = 0;

  /// Larger checkpoints are refused with state_too_large.
  std::size_t max_state_bytes = default_max_state_bytes;

  /// Early warning and retries of renewals; see lease_observer.
  std::optional<duration> warn_below{};
  retry_policy retry{};

  /// May be null. Called on threads of the client; see lease_observer.
  lease_observer_ptr observer{};

  /// Of sweeps. May be null.
  vacuum_observer_ptr sweep_observer{};

  /// What windows are judged by; tests bring their own. Must outlive the client
  /// and all leases that it granted.
  const window_clock* clock = &system_window_clock();

  /// Null means the system's.
  random_source_ptr random{};
};

struct acquire_options {
  /// Wait until the lease is free instead of failing with lease_held. Waiters
  /// of one client for one work ID are served in order.
  bool wait = false;

  /// How often to look while waiting. Zero or less means 2 s. If the store
  /// says that the lease ends sooner, the next look is right then.
  duration poll{0};

  /// Give up after so long with deadline_exceeded, waiting or not. Zero or less
  /// = no limit beyond that of the single store call.
  duration timeout{0};

  /// Keep the lease alive from the grant on. Otherwise it lapses after its ttl
  /// unless it is renewed by hand, or kept later; see held_lease::keep.
  bool managed = true;

  /// Ends the wait at once with `cancelled`, and makes
  /// held_lease::stop_requested true. It does not end the lease.
  std::stop_token stop{};

  /// Called once when the lease is lost: fenced, or lease_window_exhausted.
  /// Not called for a lease that ended otherwise (release, forget,
  /// stop_renewal, destructors), and never again once the destructor of the
  /// held_lease has returned, which waits for it. Runs on a thread of the
  /// client: it must return quickly, not throw, and not call the client or the
  /// lease; held_lease::wait_lost is for those who want to do more.
  std::function<void(const failure&)> on_lost{};
};

struct run_options {
  /// As in acquire_options.
  bool wait = false;
  duration poll{0};
  duration timeout{0};

  /// Ends the wait for the lease at once; asks work that runs to stop. Then
  /// what the function returns decides.
  std::stop_token stop{};

  /// For the final checkpoint and the release together. Zero or less means 5 s.
  duration cleanup = std::chrono::seconds{5};

  /// After a stop, how long the lease is kept alive for work that goes on, and
  /// 1.5 s more, in which harsher wishes to end follow each other. It then
  /// lapses, and the run ends with `cancelled` whatever the work returns.
  duration grace = std::chrono::seconds{10};
};

/// A run that succeeded.
struct run_outcome {
  /// What was recorded for the successor: finished or retired.
  exit_mode exit = exit_mode::none;

  /// The fencing number of the run.
  std::int64_t number = 0;
};

/// As run_options, and:
struct elect_options {
  bool wait = false;
  duration poll{0};
  /// Of the acquire alone: the pauses below come on top.
  duration timeout{0};
  /// Also ends the pauses below.
  std::stop_token stop{};
  duration cleanup = std::chrono::seconds{5};
  duration grace = std::chrono::seconds{10};

  /// Before it returns that somebody else leads; up to 20 % longer. Zero or
  /// less means 1 s.
  duration idle = std::chrono::seconds{1};

  /// Before it returns anything else but fenced. Zero or less means none.
  duration backoff{0};

  /// Callbacks, all on the thread that called `elect`, all optional. After
  /// on_elected at most one of the other two follows.

  /// Before the function is called.
  std::function<void(const token&, const prior&)> on_elected{};

  /// The function has returned, and the lease was fenced or its window ran out.
  std::function<void(const token&, const failure&)> on_lost{};

  /// The function has returned and the lease was released, as finished or
  /// retired.
  std::function<void(const token&, exit_mode)> on_relinquished{};
};

/// Zero or less means the default, but for `grace`.
struct pool_options {
  /// After a lease was found held by somebody else; up to 20 % longer.
  duration idle = std::chrono::seconds{1};

  /// After success; up to 20 % longer.
  duration rerun = std::chrono::seconds{1};

  /// After a failure.
  duration backoff = std::chrono::seconds{1};

  /// For the final checkpoint and the release together.
  duration cleanup = std::chrono::seconds{5};

  /// As in run_options.
  duration grace = std::chrono::seconds{10};

  /// How many leases the pool holds at once; 0 = all it gets.
  std::uint32_t max_held = 0;

  /// Takes no more work and asks what runs to stop; its state is stored and
  /// its leases are released, then run_pool returns.
  std::stop_token stop{};

  /// May be null. Called on threads of the client.
  pool_observer_ptr observer{};
};

/// How many units ended of themselves. With a stop, or with units that died
/// beside one that was retired, that is a success, too: which unit died, and
/// why, the observer is told (on_slot_dead).
struct pool_outcome {
  std::uint32_t retired = 0;
  std::uint32_t dead = 0;
};

// -- leases -------------------------------------------------------------------

/// A lease that was granted. All members but moves and the destructor may be
/// called from any thread at any time, also after the client is gone; calls
/// then fail with `cancelled`.
///
/// The destructor releases nothing: how a holder's time ended is for the holder
/// to say. It stops renewal, without waiting for the store; the lease lapses
/// after its ttl, and the successor reads `expired`.
///
/// Calls that ask the store end within the client's store_timeout and 2 s.
class held_lease {
public:
  /// Empty: its token is empty, it is not held, and calls fail with
  /// invalid_argument. So is one that was moved from.
  held_lease() noexcept;

  held_lease(held_lease&&) noexcept;

  /// Ends what it had before as the destructor does.
  held_lease& operator=(held_lease&&) noexcept;

  ~held_lease();

  const leasehold::token& token() const noexcept;

  /// How far the predecessor came, and how it ended.
  const prior& found() const noexcept;

  /// Whether the holder may go on working at this very moment: false once it is
  /// lost, and from the call of `release` or `forget` on. Compares a clock:
  /// right at the first look after a pause. Never blocks.
  bool held() const noexcept;

  /// Time left in the lease window; zero once `held` is false.
  duration window_left() const noexcept;

  /// Whether it is not held any more, or the stop token that it was acquired
  /// with was triggered.
  bool stop_requested() const noexcept;

  /// Why the lease was lost: fenced or lease_window_exhausted. Code `none`
  /// while it is not.
  failure why_lost() const;

  /// Blocks for `pause`, less if stop_requested turns true. Returns whether the
  /// whole pause passed.
  bool wait_for(duration pause) const;

  /// Blocks until the lease is lost and returns why; or until it ends otherwise
  /// or `stop` is triggered, then with code `none`.
  failure wait_lost(std::stop_token stop = {}) const;

  /// The stored state as it is now, and the predecessor's exit. Does not
  /// extend the lease. Errors: fenced and the store's.
  result<prior> read() const;

  /// Stores progress and extends the lease, both or neither. Absent or empty
  /// state clears what is stored. Errors: fenced, lease_expired,
  /// lease_window_exhausted (this process gave the lease up and does not
  /// revive it), state_too_large, and the store's.
  result<void> checkpoint(std::optional<std::string> state);

  /// Extends the lease. Errors: fenced, lease_expired, lease_window_exhausted,
  /// and the store's. Never revives a lease.
  result<void> renew();

  /// Starts managed renewal of a lease that was acquired without; harmless if
  /// it is managed. Errors: fenced, lease_expired or lease_window_exhausted if
  /// it is not held any more.
  result<void> keep();

  /// Ends managed renewal without waiting for one that is on its way, which has
  /// no effect any more. Loses nothing: the lease stays until it lapses or is
  /// released. Harmless if repeated, or after a loss.
  void stop_renewal();

  /// Ends managed renewal, then declares how this holder's time ended:
  /// finished, abandoned or retired; any other mode fails with
  /// invalid_exit_mode and does nothing. After unknown_outcome repeat the call.
  /// Other errors: fenced, lease_expired, and the store's.
  result<void> release(exit_mode mode);

  /// Ends managed renewal, then deletes the lease's record with its state.
  /// Errors: fenced and the store's.
  result<void> forget();

private:
  friend class client;

  class impl;

  explicit held_lease(std::unique_ptr<impl> ptr) noexcept;

  std::unique_ptr<impl> impl_;
};

// -- client -------------------------------------------------------------------

/// Makes one more session of a store. Called before the constructor of a client
/// returns. Must not return null.
using store_factory = std::function<backend::store_ptr()>;

/// One holder on one store. All members but moves and the destructor may be
/// called from any thread, by many at once.
///
/// Waits end at once when their stop token is triggered; what was still on its
/// way to the store is undone behind the caller's back. With the store down or
/// silent every call fails, within store_timeout and 2 s for one that asks the
/// store once. Only a caller can make a call last longer: by `wait` without a
/// timeout, by a function that does not return, by a pool.
///
/// Calls must not be made from observers and on_lost callbacks.
///
/// The destructor stops all renewal; leases that were not released lapse, and
/// calls that are still running fail with `cancelled`. It waits for the store
/// call that is being made, if any.
class client {
public:
  /// Opens what a URL names (see backend::store_source) and ends each of its
  /// own calls within the smaller of 3 s and store_timeout. Programs that use
  /// this constructor, or the next, link leasehold::sql.
  ///
  /// Asks no store unless options.schema says so. All constructors throw
  /// `error` if an option is wrong: config_invalid and holder_invalid,
  /// ttl_invalid, nil_backend; or what `prepare_schema` failed with.
  explicit client(std::string_view url, client_options options);

  /// As above, with a store opened as the caller likes.
  explicit client(const backend::store_source& source, client_options options);

  /// For any other store. Ignores options.schema; sessions = 0 means one.
  explicit client(const store_factory& open, client_options options);

  client(client&&) noexcept;
  client& operator=(client&&) noexcept;
  ~client();

  /// Errors: lease_held, deadline_exceeded, cancelled, invalid_argument,
  /// unavailable, unknown_outcome (repeat: the repeat finds out),
  /// store_failed. If the lease came too late for the caller it is given back.
  result<held_lease> acquire(std::string_view work_id,
                             acquire_options options = {});

  /// The record behind a token, whoever has it. Does not look at expiry.
  /// Errors: fenced if the token is not the stored one, and the store's.
  result<prior> read(const token& tok);

  /// Acquires, calls `work` on this thread, stores the state that it returned
  /// and releases: as finished if it succeeded, retired if it said so, else
  /// abandoned. A lease that was lost is neither written nor released.
  ///
  /// If `work` throws, renewal is stopped, nothing is stored or released, and
  /// the exception goes on to the caller.
  ///
  /// Errors: worker_work_fn_required; those of acquire; what the work reported;
  /// fenced and lease_window_exhausted if the lease was lost; the error of the
  /// final checkpoint or release if the work itself succeeded.
  result<run_outcome> run(std::string_view work_id, const work_function& work,
                          run_options options = {});

  /// Leads `name` once, if it is free: calls `work` on this thread as `run`
  /// does. Returns late on purpose, so that a loop of calls does not burn the
  /// store; see idle and backoff. Errors: leader_fn_required; else as `run`.
  /// An exception that leaves a callback is treated as if it left `work`.
  result<run_outcome> elect(std::string_view name, const work_function& work,
                            elect_options options = {});

  /// Runs each of the units again and again, here or wherever else such a pool
  /// runs, until all of them are retired or dead, or options.stop is triggered.
  /// Calls copies of `work` on threads of the client, several at a time, and
  /// returns when all of them have returned. An exception that leaves `work`
  /// is a failure of that run: its lease lapses, the pool goes on.
  ///
  /// Work that was retired earlier, or by another pool, is called once more
  /// here: it looks at `found().exit` and returns retired() again.
  ///
  /// Errors: pool_empty_work_ids, pool_empty_work_id, pool_duplicate_work_id,
  /// pool_work_fn_required; pool_all_slots_dead.
  result<pool_outcome> run_pool(std::vector<std::string> work_ids,
                                work_function work, pool_options options = {});

  /// Deletes the rows of work that was retired, and with `include_expired` also
  /// of work whose holder vanished, that were last updated longer ago than
  /// `retention`; returns how many. Errors: retention_required unless it is
  /// above zero, and the store's. Takes up to 1 min.
  result<std::uint64_t> sweep(duration retention, bool include_expired = false);

private:
  friend class held_lease;

  class impl;

  std::shared_ptr<impl> impl_;
};

// -- inline: only those who open a store by URL link all stores ---------------

namespace internal {

inline backend::store_source open_url(std::string_view url,
                                      const client_options& options) {
  using namespace std::chrono_literals;
  backend::store_options store;
  store.max_state_bytes = options.max_state_bytes;
  store.timeout = std::clamp<duration>(options.store_timeout, 100ms, 3s);
  auto got = backend::store_source::parse(url, std::move(store));
  if (auto* bad = std::get_if<backend::failure>(&got))
    throw error{{bad->code, bad->also, bad->detail}};
  return std::get<backend::store_source>(std::move(got));
}

inline store_factory prepare(const backend::store_source& source,
                             const client_options& options) {
  auto got = source.prepare_schema(options.schema);
  if (!got.ok())
    throw error{{got.code, got.also, got.detail}};
  return [source] { return source.open(); };
}

inline client_options complete(const backend::store_source& source,
                               client_options options) {
  if (options.sessions == 0 || source.single_writer())
    options.sessions = source.single_writer() ? 1 : 2;
  return options;
}

} // namespace internal

inline client::client(std::string_view url, client_options options)
  : client(internal::open_url(url, options), options) {
  // nop
}

inline client::client(const backend::store_source& source,
                      client_options options)
  : client(internal::prepare(source, options),
           internal::complete(source, options)) {
  // nop
}

} // namespace leasehold::blocking
