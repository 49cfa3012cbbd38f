// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/clock.hpp"
#include "leasehold/duration.hpp"
#include "leasehold/error.hpp"
#include "leasehold/exit_mode.hpp"
#include "leasehold/identifier.hpp"
#include "leasehold/token.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The store contract: what every place that keeps leases must do.
///
/// A *lapsed* lease is one whose expiry has passed without a release; *now* is
/// always the store's clock. A row matches an operation if work ID, holder and
/// number are all equal; equality, not order, decides.
namespace leasehold::backend {

enum class op_kind : std::uint8_t {
  /// Claims an absent, released or lapsed lease: outcome `none` with the new
  /// number and the prior record, else `lease_held`. A refusal writes nothing.
  acquire,
  /// Reads the prior record: `fenced` without a matching row. Does not look at
  /// expiry and does not extend.
  read,
  /// Stores `state` *and* moves the expiry to now + ttl, together or not at
  /// all. Revives a lapsed lease that nobody took. `fenced` without a matching
  /// row, `lease_expired` after a release.
  checkpoint,
  /// Moves the expiry to now + ttl. Never revives: `fenced` without a matching
  /// row, `lease_expired` when lapsed or released.
  renew,
  /// Declares the exit and puts the expiry at least 1 ms into the past; row
  /// and state stay. `fenced` without a matching row, `lease_expired` when
  /// lapsed or released already.
  release,
  /// Deletes the matching row, held or not; `fenced` without one.
  forget,
};

inline constexpr auto last_op_kind = op_kind::forget;

/// "acquire", "read", ...
std::string to_string(op_kind kind);

bool from_string(std::string_view name, op_kind& kind);

bool from_integer(std::uint8_t raw, op_kind& kind);

/// One operation on one work ID. Which fields count depends on `kind`.
struct operation {
  op_kind kind = op_kind::acquire;

  std::string work_id;

  std::string holder_id;

  /// The fencing number; all kinds but acquire.
  std::int64_t number = 0;

  /// acquire, checkpoint, renew. Zero or less makes a row that has expired
  /// already; only tests want that.
  duration ttl{0};

  /// acquire: identifies this call, so that a repeat by the same holder after
  /// a lost reply is answered with the grant that it already got. Draw it at
  /// random for each acquisition and never use one again after an answer. 0 =
  /// not repeatable.
  std::int64_t request = 0;

  /// checkpoint: absent and empty both clear the stored state.
  std::optional<std::string> state;

  /// checkpoint: grows with each checkpoint of one token, so that a delayed
  /// duplicate cannot put an older state over a newer one. A sequence at or
  /// below the stored one extends the lease and leaves the state alone.
  /// 0 = always write.
  std::int64_t sequence = 0;

  /// release: finished, abandoned or retired. Anything else is answered with
  /// `invalid_exit_mode` before every other check.
  exit_mode exit = exit_mode::none;

  /// release: this repeats a call whose outcome was unknown; if the row shows
  /// that the first one took effect with the same mode, the answer is ok.
  bool repeat = false;

  static operation acquire(std::string work_id, std::string holder_id,
                           duration ttl, std::int64_t request = 0);
  static operation read(const token& tok);
  static operation checkpoint(const token& tok, duration ttl,
                              std::optional<std::string> state,
                              std::int64_t sequence = 0);
  static operation renew(const token& tok, duration ttl);
  static operation release(const token& tok, exit_mode exit,
                           bool repeat = false);
  static operation forget(const token& tok);

  friend bool operator==(const operation&, const operation&) = default;
};

/// The answer to one operation.
struct outcome {
  /// `none` means that it took effect.
  ec code = ec::none;

  /// A second code that says more, for example schema_missing.
  ec also = ec::none;

  /// acquire: the number granted, or, with lease_held, that of the holder.
  std::int64_t number = 0;

  /// Store time of the answer, microseconds since the Unix epoch.
  std::int64_t now_us = 0;

  /// Expiry by the store's clock: of the lease granted or extended, or, with
  /// lease_held, of the lease that is in the way. `expires_us - now_us` is the
  /// time left.
  std::int64_t expires_us = 0;

  /// acquire and read: what the holder finds.
  prior previous;

  /// acquire with lease_held: who has it.
  std::string holder_id;

  /// For people; holds neither bound values nor credentials nor state.
  std::string detail;

  bool ok() const noexcept {
    return code == ec::none;
  }

  friend bool operator==(const outcome&, const outcome&) = default;
};

/// Selects rows for `store::list`.
struct list_query {
  /// Only work IDs that start with these bytes.
  std::string prefix;

  /// Only this work ID; wins over `prefix`.
  std::string work_id;

  /// Only work IDs greater (byte-wise) than this one: the cursor for paging.
  std::string after;

  /// At most so many rows, in byte order of the work ID; 0 = no limit.
  std::uint32_t limit = 0;

  /// Whether rows carry the state itself and not only its size.
  bool with_state = false;

  friend bool operator==(const list_query&, const list_query&) = default;
};

/// One lease as it stands in the store.
struct row {
  std::string work_id;
  std::string holder_id;
  std::int64_t number = 0;
  std::int64_t expires_us = 0;
  std::int64_t acquired_us = 0;
  std::int64_t updated_us = 0;

  /// The exit that the present holder declared; `none` if it has not.
  exit_mode exit = exit_mode::none;

  exit_mode previous_exit = exit_mode::none;
  std::string previous_holder_id;

  /// Bytes of state; nothing if there is no state.
  std::optional<std::uint64_t> state_bytes;

  /// The state, if the query asked for it.
  std::optional<std::string> state;

  friend bool operator==(const row&, const row&) = default;
};

struct listing {
  ec code = ec::none;
  ec also = ec::none;
  std::int64_t now_us = 0;
  std::vector<row> rows;
  std::string detail;

  friend bool operator==(const listing&, const listing&) = default;
};

/// Selects rows for `store::sweep`: not held, last updated more than
/// `retention` ago, and retired, or, with `include_expired`, lapsed.
struct sweep_query {
  duration retention{0};
  bool include_expired = false;

  friend bool operator==(const sweep_query&, const sweep_query&) = default;
};

struct sweep_result {
  ec code = ec::none;
  ec also = ec::none;
  std::uint64_t deleted = 0;
  std::string detail;

  friend bool operator==(const sweep_result&, const sweep_result&) = default;
};

/// What is checked before a store is asked: IDs, ttl, exit mode, state size.
/// Returns an outcome with code `none` if the operation may be sent.
outcome check(const operation& op, std::size_t max_state_bytes);

/// A place that keeps leases. One store object is one session: it is *not*
/// thread-safe, has one user at a time (a BACKEND), and heals by itself: after
/// a fault the next call connects again.
///
/// No member throws; whatever goes wrong is an outcome. Each call ends within
/// the limit that the store was opened with. A store never waits for a lease
/// and never retries on behalf of the caller, save inside one call for what
/// the database itself asks to be repeated (deadlock, serialization).
class store {
public:
  virtual ~store();

  /// Applies operations and returns one outcome each, in the same order.
  /// Several operations on one work ID behave as if run one after the other,
  /// in order. Each operation is atomic; the batch as a whole is not.
  ///
  /// `unavailable` says that the operation was surely not applied,
  /// `unknown_outcome` that nobody knows: repeating it, with the same fields,
  /// is idempotent.
  virtual std::vector<outcome> execute(std::span<const operation> ops) = 0;

  /// Rows in byte order of their work ID. Reads committed data only.
  virtual listing list(const list_query& query) = 0;

  /// Deletes what the query selects, each row only if it still qualifies at
  /// the moment of its deletion.
  virtual sweep_result sweep(const sweep_query& query) = 0;
};

using store_ptr = std::unique_ptr<store>;

/// How the clock of a store stands to another one.
struct clock_difference {
  ec code = ec::none;

  /// How far the store's clock is ahead; negative if it is behind.
  duration ahead{0};

  /// `ahead` is right within this, half the time that the store took.
  duration tolerance{0};

  std::string detail;
};

/// Asks the store for its time, a few times, and keeps the best answer. Leases
/// do not depend on the difference, but people who compare times do, and a
/// large one says that some clock is wrong.
clock_difference compare_clocks(store& st, const store_clock& ours);

/// Splits a batch so that each part has at most one operation per work ID and
/// operations on one work ID keep their order: part k holds the k-th operation
/// on each ID. Returns indexes into `ops`.
std::vector<std::vector<std::size_t>>
split_by_work_id(std::span<const operation> ops);

} // namespace leasehold::backend
