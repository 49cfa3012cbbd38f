// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/backend/store.hpp"
#include "leasehold/clock.hpp"

#include <memory>

namespace leasehold::backend {

/// Keeps leases in this process, for tests and demonstrations. Differs from
/// the other stores in that its data ends with the process and that fencing
/// numbers start at 1 and grow by one per grant.
///
/// Unlike other stores it may be used by several threads at once. `share` makes
/// another session on the same data; two stores that were constructed share
/// nothing.
class memory_store : public store {
public:
  explicit memory_store(store_clock clock = system_store_clock(),
                        std::size_t max_state_bytes = default_max_state_bytes);

  ~memory_store() override;

  std::vector<outcome> execute(std::span<const operation> ops) override;

  listing list(const list_query& query) override;

  sweep_result sweep(const sweep_query& query) override;

  /// Another session on the same data.
  std::unique_ptr<memory_store> share() const;

private:
  struct data;

  explicit memory_store(std::shared_ptr<data> shared);

  std::shared_ptr<data> data_;
};

} // namespace leasehold::backend
