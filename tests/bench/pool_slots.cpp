// SPDX-License-Identifier: Apache-2.0
//
// What the slots of a pool cost, held and waiting, on the memory store.
//
//   pool_slots SLOTS SECONDS
//
// First a pool gets all of its leases; then a second process, played by another
// LEASE, waits for the same ones: its slots are idle and ask the store.
#include "leasehold/backend/memory.hpp"
#include "leasehold/backend_actor.hpp"
#include "leasehold/lease_actor.hpp"
#include "leasehold/pool.hpp"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

using namespace leasehold;

namespace {

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  auto seconds = [](const timeval& x) {
    return static_cast<double>(x.tv_sec) + static_cast<double>(x.tv_usec) / 1e6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

long resident_kib() {
  malloc_trim(0);
  long total = 0;
  long resident = 0;
  if (auto* f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%ld %ld", &total, &resident) != 2)
      resident = 0;
    std::fclose(f);
  }
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/// Counts calls and the kinds of operations.
class counting_store : public backend::store {
public:
  explicit counting_store(std::unique_ptr<backend::memory_store> real)
    : real_(std::move(real)) {
    // nop
  }

  std::vector<backend::outcome>
  execute(std::span<const backend::operation> ops) override {
    if (ops.front().kind == backend::op_kind::acquire)
      ++attempts;
    return real_->execute(ops);
  }

  backend::listing list(const backend::list_query& query) override {
    return real_->list(query);
  }

  backend::sweep_result sweep(const backend::sweep_query& query) override {
    return real_->sweep(query);
  }

  static inline std::atomic<long> attempts{0};

private:
  std::unique_ptr<backend::memory_store> real_;
};

/// The smallest worker: it waits to be ended.
class idle_worker : public caf::event_based_actor {
public:
  static inline std::atomic<long> alive{0};

  idle_worker(caf::actor_config& cfg, const assignment& job)
    : caf::event_based_actor(cfg) {
    end_with(this, job.hold);
    ++alive;
  }

  caf::behavior make_behavior() override {
    return {[](int) {}};
  }
};

/// What an actor of the user's takes by itself.
long worker_kib(caf::actor_system& sys, long count) {
  auto before = resident_kib();
  std::vector<caf::actor> workers;
  workers.reserve(static_cast<std::size_t>(count));
  for (long i = 0; i < count; ++i)
    workers.push_back(sys.spawn([](caf::event_based_actor*) -> caf::behavior {
      return {[](int) {}};
    }));
  std::this_thread::sleep_for(std::chrono::seconds{1});
  auto result = resident_kib() - before;
  for (auto& x : workers)
    caf::anon_send_exit(x, caf::exit_reason::user_shutdown);
  return result;
}

lease_actor make_lease(caf::actor_system& sys, const backend_actor& store,
                       std::string holder) {
  lease_options options;
  options.holder_id = std::move(holder);
  options.ttl = std::chrono::seconds{30};
  return *spawn_lease(sys, store, options);
}

pool_actor make_pool(caf::actor_system& sys, const lease_actor& lease,
                     const std::vector<std::string>& ids) {
  pool_options options;
  options.lease = lease;
  options.work_ids = ids;
  options.work = [](caf::actor_system& system, const assignment& job) {
    return caf::actor{system.spawn<idle_worker>(job)};
  };
  return *spawn_pool(sys, options);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: pool_slots SLOTS SECONDS\n");
    return 64;
  }
  auto slots = std::atol(argv[1]);
  auto run = std::chrono::seconds{std::atol(argv[2])};
  std::vector<std::string> ids;
  for (long i = 0; i < slots; ++i)
    ids.push_back("bench/orders-2026/shard-" + std::to_string(i));
  config_base<caf::id_block::leasehold> cfg;
  if (auto err = cfg.apply({"caf.scheduler.policy=sharing"}))
    return 70;
  caf::actor_system sys{cfg};
  backend::memory_store data;
  // The store's rows are there before anything is measured.
  for (auto& id : ids) {
    auto op = backend::operation::acquire(id, "before:12345", duration{0});
    data.execute({&op, 1});
  }
  auto per_slot = [&](long kib) {
    return static_cast<double>(kib) / static_cast<double>(slots);
  };
  auto holder_store
    = spawn_backend(sys, std::make_unique<counting_store>(data.share()));
  auto holder = make_lease(sys, holder_store, "holder:12345");
  auto worker = worker_kib(sys, slots);
  std::this_thread::sleep_for(std::chrono::seconds{1});
  auto empty = resident_kib();
  auto holding = make_pool(sys, holder, ids);
  post_anon(holding, run_pool{});
  while (idle_worker::alive < slots)
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  std::this_thread::sleep_for(std::chrono::seconds{1});
  auto held = resident_kib();
  std::printf("%.2f KiB per held slot, of which %.2f KiB its worker\n",
              per_slot(held - empty), per_slot(worker));
  auto waiter_store
    = spawn_backend(sys, std::make_unique<counting_store>(data.share()));
  auto waiter = make_lease(sys, waiter_store, "waiter:12345");
  auto waiting = make_pool(sys, waiter, ids);
  counting_store::attempts = 0;
  post_anon(waiting, run_pool{});
  while (counting_store::attempts == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  std::this_thread::sleep_for(std::chrono::seconds{3});
  std::printf("%.2f KiB per waiting slot\n", per_slot(resident_kib() - held));
  counting_store::attempts = 0;
  auto cpu = cpu_seconds();
  std::this_thread::sleep_for(run);
  auto seconds = std::chrono::duration<double>(run).count();
  std::printf("%.2f statements/s for %ld waiting slots, %.3f cores for all\n",
              static_cast<double>(counting_store::attempts) / seconds, slots,
              (cpu_seconds() - cpu) / seconds);
  for (auto& x : {waiting, holding})
    post_anon(x, stop_pool{stop_mode::now});
  std::this_thread::sleep_for(std::chrono::seconds{1});
  for (auto& x : {waiting, holding})
    caf::anon_send_exit(x, caf::exit_reason::user_shutdown);
  for (auto& x : {waiter, holder})
    caf::anon_send_exit(x, caf::exit_reason::user_shutdown);
  for (auto& x : {waiter_store, holder_store})
    caf::anon_send_exit(x, caf::exit_reason::user_shutdown);
}
