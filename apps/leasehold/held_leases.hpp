// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/duration.hpp"
#include "leasehold/token.hpp"

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace leasehold::app {

/// A lease that was granted to this process and, as far as it knows, has
/// neither been released nor lost.
struct held_lease {
  std::string pool;
  token tok;
  /// Nobody else gets it before; the store may have a slightly earlier time.
  std::chrono::steady_clock::time_point until;
  /// Why it could not be released; empty if that was not tried.
  std::string problem;
};

/// All leases of the process, from what its LEASEs observe. What is left when
/// everything has ended was not released, and its successors have to wait.
/// Thread-safe.
class held_leases {
public:
  void grant(std::string_view pool, const token& tok, duration ttl);

  /// The store has confirmed it again.
  void extend(const token& tok, duration ttl);

  /// A release went wrong; another attempt may not.
  void blame(const token& tok, std::string problem);

  /// Released, lost or superseded.
  void end(const token& tok);

  /// Somebody else has it.
  void end(std::string_view work_id);

  /// Those that were not over at `when`, by work ID.
  std::vector<held_lease>
  held_at(std::chrono::steady_clock::time_point when) const;

private:
  held_lease* find(const token& tok);

  mutable std::mutex mtx_;
  std::map<std::string, held_lease, std::less<>> leases_;
};

} // namespace leasehold::app
