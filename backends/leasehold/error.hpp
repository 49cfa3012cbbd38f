// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace leasehold {

/// Everything that can go wrong, as codes that callers compare. Text is for
/// people and may change; codes may not. Each comment says what to do.
enum class ec : std::uint8_t {
  /// Nothing went wrong.
  none = 0,

  // -- what a lease operation can answer --------------------------------------

  /// Another holder has the lease now, or its record is gone. Stop working:
  /// nothing that is written with this token will ever be accepted again.
  fenced,
  /// Somebody else holds the lease. Try again when it expires, or wait for it.
  lease_held,
  /// The lease ran out, or was released, before the operation arrived. Stop
  /// working; acquire again to go on.
  lease_expired,
  /// No renewal was confirmed in time, so the lease may belong to somebody
  /// else. Stop working; acquire again to go on.
  lease_window_exhausted,
  /// A release named a mode that only a store may infer (or none at all).
  /// Release with finished, abandoned or retired.
  invalid_exit_mode,
  /// Returned *by* work to say that its work ID is done for good.
  retire,

  // -- what a store can answer ------------------------------------------------

  /// The store did not do it and could not be asked. Retry later.
  unavailable,
  /// The reply was lost: the operation may or may not have been applied.
  /// Repeat the same call with the same arguments; that is idempotent.
  unknown_outcome,
  /// The store refused for a reason that a retry does not cure (permission,
  /// missing table, broken file). A person has to look.
  store_failed,
  /// Secondary to store_failed: the table is not there. Run
  /// `leasehold schema apply`.
  schema_missing,
  /// Secondary to store_failed: what is there is no store of leasehold: no
  /// database, a damaged one, or a table of another program. A person has to
  /// look.
  not_a_store,
  /// An argument cannot be stored (empty or overlong ID, NUL, bad UTF-8, a
  /// ttl out of range). Correct the call.
  invalid_argument,
  /// The state is larger than the limit. Store less, or store a reference.
  state_too_large,
  /// The stored state is damaged, or another codec, program or version wrote
  /// it. A retry does not cure that; a person has to look.
  state_unreadable,
  /// The caller's time was up before the answer. The operation did not start.
  deadline_exceeded,
  /// The caller, or a shutdown, ended the operation.
  cancelled,

  // -- construction errors; all of them match config_invalid ------------------

  /// Umbrella for everything below: an object was built from bad options.
  config_invalid,
  /// A lease, or a vacuum, was built without a store.
  nil_backend,
  /// The ttl is zero, negative, or below one millisecond.
  ttl_invalid,
  /// The holder ID is empty or breaks the rules of identifiers.
  holder_invalid,
  /// A sweep needs a retention above zero.
  retention_required,
  worker_lease_required,
  worker_work_fn_required,
  leader_lease_required,
  leader_fn_required,
  /// Umbrella for a pool's own construction errors.
  pool_config_invalid,
  pool_lease_required,
  pool_empty_work_ids,
  pool_empty_work_id,
  pool_duplicate_work_id,
  /// Slots wait by themselves; a waiting acquire in a slot cannot be stopped.
  pool_wait_prohibited,
  pool_work_fn_required,

  // -- how work and pools end -------------------------------------------------

  /// Every slot of a pool ended by a permanent error. A person has to look.
  pool_all_slots_dead,
  /// The pool is running already; wait for that run to end.
  pool_running,
  /// The work reported a failure that a later attempt may not have.
  work_failed,
  /// The work reported a failure that no attempt will cure; its slot ends.
  work_permanent,
  /// The work ended by an exception or died without a result.
  work_threw,
};

/// The highest code, for walking all of them.
inline constexpr auto last_ec = ec::work_threw;

/// Name of a code as it is spelled in print, for example "lease_held".
std::string to_string(ec code);

bool from_string(std::string_view name, ec& code);

bool from_integer(std::uint8_t raw, ec& code);

/// One sentence for people: what it means and what to do.
std::string_view explain(ec code);

/// Whether `code` is `wanted` or belongs to the family that `wanted` names
/// (config_invalid, pool_config_invalid).
bool matches(ec code, ec wanted) noexcept;

} // namespace leasehold
