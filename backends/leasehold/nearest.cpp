// SPDX-License-Identifier: Apache-2.0
#include "leasehold/nearest.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace leasehold {

namespace {

// How many letters must be added, removed or changed.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      auto change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

} // namespace

std::string nearest(std::span<const std::string> candidates,
                    std::string_view typed) {
  // Of a short word too little is left after two errors. To swap two letters
  // is one error that counts twice.
  auto is_near = [typed](std::string_view candidate, std::size_t n) {
    auto shorter = std::min(typed.size(), candidate.size());
    return n < candidate.size()
           && (n < 2 || shorter > 4
               || (typed.size() == candidate.size()
                   && std::is_permutation(typed.begin(), typed.end(),
                                          candidate.begin())));
  };
  std::string best;
  std::size_t least = 3;
  for (auto& candidate : candidates) {
    auto n = distance(typed, candidate);
    if (n < least && is_near(candidate, n)) {
      least = n;
      best = candidate;
    }
  }
  return best;
}

} // namespace leasehold
