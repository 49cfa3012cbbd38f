// SPDX-License-Identifier: Apache-2.0
#include "leasehold/clock.hpp"

#include <ctime>

namespace leasehold {

namespace {

class boot_clock : public window_clock {
public:
  window_time now() const noexcept override {
    timespec ts{};
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return std::chrono::seconds{ts.tv_sec}
           + std::chrono::nanoseconds{ts.tv_nsec};
  }
};

} // namespace

const window_clock& system_window_clock() noexcept {
  static const boot_clock instance;
  return instance;
}

store_clock system_store_clock() {
  return [] {
    using namespace std::chrono;
    return static_cast<std::int64_t>(
      duration_cast<microseconds>(system_clock::now().time_since_epoch())
        .count());
  };
}

} // namespace leasehold
