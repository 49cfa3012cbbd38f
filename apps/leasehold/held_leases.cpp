// SPDX-License-Identifier: Apache-2.0
#include "leasehold/held_leases.hpp"

#include <utility>

namespace leasehold::app {

using std::chrono::steady_clock;

void held_leases::grant(std::string_view pool, const token& tok, duration ttl) {
  std::lock_guard guard{mtx_};
  leases_.insert_or_assign(
    tok.work_id(),
    held_lease{std::string{pool}, tok, steady_clock::now() + ttl, {}});
}

void held_leases::extend(const token& tok, duration ttl) {
  std::lock_guard guard{mtx_};
  if (auto* found = find(tok))
    found->until = steady_clock::now() + ttl;
}

void held_leases::blame(const token& tok, std::string problem) {
  std::lock_guard guard{mtx_};
  if (auto* found = find(tok))
    found->problem = std::move(problem);
}

void held_leases::end(const token& tok) {
  std::lock_guard guard{mtx_};
  if (find(tok) != nullptr)
    leases_.erase(tok.work_id());
}

void held_leases::end(std::string_view work_id) {
  std::lock_guard guard{mtx_};
  if (auto pos = leases_.find(work_id); pos != leases_.end())
    leases_.erase(pos);
}

std::vector<held_lease>
held_leases::held_at(steady_clock::time_point when) const {
  std::lock_guard guard{mtx_};
  std::vector<held_lease> result;
  for (auto& [work_id, lease] : leases_)
    if (lease.until > when)
      result.push_back(lease);
  return result;
}

// An answer to an older token may come when a newer one is there.
held_lease* held_leases::find(const token& tok) {
  auto pos = leases_.find(tok.work_id());
  return pos != leases_.end() && pos->second.tok.number() == tok.number()
           ? &pos->second
           : nullptr;
}

} // namespace leasehold::app
