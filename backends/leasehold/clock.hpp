// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace leasehold {

/// A point on a window clock. Only differences mean anything.
using window_time = std::chrono::nanoseconds;

/// The clock that lease windows are judged by: it never steps, and it goes on
/// while the machine is suspended, so that a lease does not look alive to a
/// laptop that slept through its end. Implementations are thread-safe and do
/// not fail.
class window_clock {
public:
  virtual ~window_clock() = default;

  virtual window_time now() const noexcept = 0;
};

/// The machine's own window clock (CLOCK_BOOTTIME). Lives for ever.
const window_clock& system_window_clock() noexcept;

/// A store's idea of now: microseconds since the Unix epoch, UTC. Stores with
/// a server ask the server; in-process stores take one of these, so that tests
/// decide what time it is.
using store_clock = std::function<std::int64_t()>;

/// The machine's wall clock as a store clock.
store_clock system_store_clock();

} // namespace leasehold
