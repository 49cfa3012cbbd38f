// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

namespace leasehold {

/// Where jitter and request IDs come from. Thread-safe.
class random_source {
public:
  virtual ~random_source() = default;

  virtual std::uint64_t next() = 0;

  /// A number in [0, 1).
  double fraction() {
    return static_cast<double>(next() >> 11) * 0x1.0p-53;
  }
};

using random_source_ptr = std::shared_ptr<random_source>;

/// Seeded from the operating system; two processes never agree.
random_source_ptr system_random();

/// The same numbers for the same seed.
random_source_ptr seeded_random(std::uint64_t seed);

} // namespace leasehold
