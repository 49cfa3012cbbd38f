// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/backend/store.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace leasehold::internal {

/// Indexes of operations of one call.
using indexes = std::vector<std::size_t>;

/// Beyond these a statement gains nothing and holds its locks longer.
struct chunk_limits {
  std::size_t rows = 0;
  std::size_t bytes = 0;
  /// An operation with a larger state goes by itself.
  std::size_t state_bytes = 0;
};

/// Whether an operation carries a state that goes by itself.
inline bool is_large(const backend::operation& op, const chunk_limits& limits) {
  return op.kind == backend::op_kind::checkpoint && op.state
         && op.state->size() > limits.state_bytes;
}

/// Puts operations into byte order of their work IDs, in which all statements
/// lock, so that batches cannot deadlock.
inline void sort_by_work_id(std::span<const backend::operation> ops,
                            indexes& all) {
  std::sort(all.begin(), all.end(),
            [&](auto x, auto y) { return ops[x].work_id < ops[y].work_id; });
}

/// Calls `run` for one chunk of `all` after the other, in order.
template <class Run>
void for_each_chunk(std::span<const backend::operation> ops, const indexes& all,
                    const chunk_limits& limits, Run run) {
  indexes chunk;
  std::size_t bytes = 0;
  auto flush = [&] {
    if (!chunk.empty())
      run(std::as_const(chunk));
    chunk.clear();
    bytes = 0;
  };
  for (auto i : all) {
    auto& op = ops[i];
    if (is_large(op, limits)) {
      flush();
      run(indexes{i});
      continue;
    }
    auto size = op.work_id.size() + op.holder_id.size()
                + (op.state ? op.state->size() : 0);
    if (chunk.size() == limits.rows || bytes + size > limits.bytes)
      flush();
    chunk.push_back(i);
    bytes += size;
  }
  flush();
}

} // namespace leasehold::internal
