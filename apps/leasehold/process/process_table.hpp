// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/clock.hpp"

#include <sys/types.h>

#include <unordered_set>

namespace leasehold::process {

/// Answers which process groups have living members, zombies aside, by reading
/// /proc once for all who ask at about the same time.
class process_table {
public:
  /// Whether the group had a living member at some moment after `since`.
  bool has_living_member(pid_t group, window_time since);

private:
  void read();

  window_time taken_ = window_time::min();
  bool readable_ = false;
  std::unordered_set<pid_t> groups_;
};

} // namespace leasehold::process
