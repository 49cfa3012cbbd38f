// SPDX-License-Identifier: Apache-2.0
#include "leasehold/random.hpp"

#include <mutex>
#include <random>

namespace leasehold {

namespace {

class engine_source : public random_source {
public:
  explicit engine_source(std::seed_seq& seed) : engine_{seed} {
    // nop
  }

  std::uint64_t next() override {
    std::lock_guard guard{mtx_};
    return engine_();
  }

private:
  std::mutex mtx_;
  std::mt19937_64 engine_;
};

} // namespace

random_source_ptr system_random() {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device(),
                     device(), device(), device(), device()};
  return std::make_shared<engine_source>(seed);
}

random_source_ptr seeded_random(std::uint64_t value) {
  std::seed_seq seed{static_cast<std::uint32_t>(value),
                     static_cast<std::uint32_t>(value >> 32)};
  return std::make_shared<engine_source>(seed);
}

} // namespace leasehold
