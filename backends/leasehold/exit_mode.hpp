// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace leasehold {

/// How a holder's time with a lease ended. A holder declares its own exit when
/// it releases; the next holder reads it. A reader that meets a value it does
/// not know treats it as `expired`.
enum class exit_mode : std::uint8_t {
  /// There was no predecessor, or its record was removed: start from scratch.
  none,
  /// The run is complete; the work ID may run again. The state is final.
  finished,
  /// Stopped on purpose before completion. The state is partial.
  abandoned,
  /// Done for good: do not redo. The state is final.
  retired,
  /// Nobody declared anything: a crash, a partition, or a lost window. The
  /// state is partial and effects outside the store may have come after it.
  expired,
};

std::string to_string(exit_mode mode);

bool from_string(std::string_view name, exit_mode& mode);

bool from_integer(std::uint8_t raw, exit_mode& mode);

/// Reads text from a store: a word that we do not know means `expired`.
exit_mode exit_mode_from_store(std::string_view name);

/// Whether a holder may declare `mode` in a release.
bool is_declarable(exit_mode mode) noexcept;

} // namespace leasehold
