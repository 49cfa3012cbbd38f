// SPDX-License-Identifier: Apache-2.0
#include "leasehold/error.hpp"

#include <array>
#include <utility>

namespace leasehold {

namespace {

struct entry {
  std::string_view name;
  std::string_view text;
};

// In the order of the enum; error_test walks every code.
constexpr std::array entries{
  entry{"none", "no error"},
  entry{"fenced", "another holder has the lease now, or its record is gone; "
                  "this holder must stop"},
  entry{"lease_held", "somebody else holds the lease; wait for it to be "
                      "released or to expire"},
  entry{"lease_expired", "the lease ran out or was released before; acquire it "
                         "again to go on"},
  entry{"lease_window_exhausted", "no renewal was confirmed in time; the lease "
                                  "may belong to somebody else now"},
  entry{"invalid_exit_mode", "a release must say finished, abandoned or "
                             "retired"},
  entry{"retire", "the work is done for good"},
  entry{"unavailable", "the store could not be asked; retry later"},
  entry{"unknown_outcome", "the store's answer was lost; repeat the same call"},
  entry{"store_failed", "the store refused; a retry will not help"},
  entry{"schema_missing", "the table is missing; run `leasehold schema apply`"},
  entry{"not_a_store",
        "what is there is damaged, or is no store of leasehold; a person has "
        "to look"},
  entry{"invalid_argument", "an argument cannot be stored"},
  entry{"state_too_large", "the state is larger than the limit"},
  entry{"state_unreadable", "the stored state is damaged, or another program "
                            "wrote it"},
  entry{"deadline_exceeded", "the time for this call was up"},
  entry{"cancelled", "the call was cancelled"},
  entry{"config_invalid", "an option is invalid"},
  entry{"nil_backend", "a store is required"},
  entry{"ttl_invalid", "the ttl must be at least 1ms"},
  entry{"holder_invalid", "the holder ID must not be empty"},
  entry{"retention_required", "a sweep needs a retention above zero"},
  entry{"worker_lease_required", "a runner needs a lease"},
  entry{"worker_work_fn_required", "a runner needs work"},
  entry{"leader_lease_required", "an election needs a lease"},
  entry{"leader_fn_required", "an election needs a function"},
  entry{"pool_config_invalid", "an option of the pool is invalid"},
  entry{"pool_lease_required", "a pool needs a lease"},
  entry{"pool_empty_work_ids", "a pool needs at least one work ID"},
  entry{"pool_empty_work_id", "a work ID of the pool is empty or invalid"},
  entry{"pool_duplicate_work_id", "a work ID stands in the pool twice"},
  entry{"pool_wait_prohibited", "a pool's slots must not wait in acquire"},
  entry{"pool_work_fn_required", "a pool needs work"},
  entry{"pool_all_slots_dead", "every slot ended by a permanent error"},
  entry{"pool_running", "the pool is running already"},
  entry{"work_failed", "the work failed"},
  entry{"work_permanent", "the work failed for good"},
  entry{"work_threw", "the work ended by an exception"},
};

static_assert(entries.size() == static_cast<std::size_t>(last_ec) + 1);

} // namespace

std::string to_string(ec code) {
  auto index = static_cast<std::size_t>(code);
  if (index < entries.size())
    return std::string{entries[index].name};
  return "ec(" + std::to_string(index) + ")";
}

bool from_string(std::string_view name, ec& code) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].name == name) {
      code = static_cast<ec>(i);
      return true;
    }
  }
  return false;
}

bool from_integer(std::uint8_t raw, ec& code) {
  if (raw >= entries.size())
    return false;
  code = static_cast<ec>(raw);
  return true;
}

std::string_view explain(ec code) {
  auto index = static_cast<std::size_t>(code);
  return index < entries.size() ? entries[index].text : "unknown error code";
}

bool matches(ec code, ec wanted) noexcept {
  if (code == wanted)
    return true;
  auto within
    = [code](ec first, ec last) { return code >= first && code <= last; };
  switch (wanted) {
    case ec::config_invalid:
      return within(ec::nil_backend, ec::pool_work_fn_required);
    case ec::pool_config_invalid:
      return within(ec::pool_lease_required, ec::pool_work_fn_required);
    default:
      return false;
  }
}

} // namespace leasehold
