// SPDX-License-Identifier: Apache-2.0
//
// Holds many leases in one process and reports what that costs.
//
//   hold_leases URL LEASES TTL-SECONDS SECONDS
//
// For example: 1,000 leases at a ttl of 10 s for ten minutes.
//   hold_leases postgresql://user@127.0.0.1/db 1000 10 600
// The store `memory:` shows what the actors alone cost; what its rows take is
// measured first and taken off.
//   hold_leases memory: 100000 30 300
#include "leasehold/backend/memory.hpp"
#include "leasehold/backend/open.hpp"
#include "leasehold/backend_actor.hpp"
#include "leasehold/lease_actor.hpp"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

using namespace leasehold;

namespace {

/// Counts what happens to the leases, and the tightest renewal.
struct tally : lease_observer {
  std::atomic<std::uint64_t> renewed{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> lost{0};
  /// Renewals confirmed when at least a quarter of the ttl was left.
  std::atomic<std::uint64_t> early{0};
  std::atomic<std::int64_t> tightest_us{INT64_MAX};
  duration quarter{0};

  void on_renew(const token&, int, duration left,
                const result_info& info) override {
    if (info.code != ec::none) {
      ++failed;
      return;
    }
    ++renewed;
    if (left >= quarter)
      ++early;
    auto seen = tightest_us.load();
    while (left.count() < seen
           && !tightest_us.compare_exchange_weak(seen, left.count()))
      ;
  }

  void on_lost(const token&, const loss_report&) override {
    ++lost;
  }
};

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  auto seconds = [](const timeval& x) {
    return static_cast<double>(x.tv_sec) + static_cast<double>(x.tv_usec) / 1e6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

long resident_kib() {
  long total = 0;
  long resident = 0;
  if (auto* f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%ld %ld", &total, &resident) != 2)
      resident = 0;
    std::fclose(f);
  }
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

std::string work_id_of(long i) {
  return "bench/orders-2026/shard-" + std::to_string(i);
}

/// What a row of the memory store takes.
double row_kib(long leases, const std::string& holder_id) {
  malloc_trim(0);
  auto before = resident_kib();
  backend::memory_store store;
  for (long i = 0; i < leases; ++i) {
    auto op = backend::operation::acquire(work_id_of(i), holder_id,
                                          std::chrono::hours{1});
    store.execute({&op, 1});
  }
  return static_cast<double>(resident_kib() - before)
         / static_cast<double>(leases);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: hold_leases URL LEASES TTL-SECONDS SECONDS\n");
    return 64;
  }
  auto leases = std::atol(argv[2]);
  auto ttl = std::chrono::seconds{std::atol(argv[3])};
  auto run = std::chrono::seconds{std::atol(argv[4])};
  auto holder_id = "hold_leases:" + std::to_string(getpid());
  auto in_memory = std::string{argv[1]} == "memory:";
  std::optional<backend::store_source> source;
  auto of_row = 0.0;
  if (in_memory) {
    of_row = row_kib(leases, holder_id);
  } else {
    auto parsed = backend::store_source::parse(argv[1]);
    if (auto* bad = std::get_if<backend::failure>(&parsed)) {
      std::fprintf(stderr, "%s\n", bad->detail.c_str());
      return 78;
    }
    source = std::get<backend::store_source>(std::move(parsed));
    if (auto got = source->apply_schema(); !got.ok()) {
      std::fprintf(stderr, "%s\n", got.detail.c_str());
      return 69;
    }
  }
  config_base<caf::id_block::leasehold> cfg;
  if (auto err = cfg.apply({"caf.scheduler.policy=sharing"}))
    return 70;
  caf::actor_system sys{cfg};
  backend_actor store;
  if (in_memory)
    store = spawn_backend(sys, std::make_unique<backend::memory_store>());
  else if (source->single_writer())
    store = spawn_backend(sys, source->open());
  else
    store = spawn_backends(
      sys, [&] { return source->open(); }, 2);
  auto counts = std::make_shared<tally>();
  counts->quarter = ttl / 4;
  lease_options options;
  options.holder_id = holder_id;
  options.ttl = ttl;
  options.observer = counts;
  auto lease = spawn_lease(sys, store, options);
  if (!lease) {
    std::fprintf(stderr, "%s\n", render(lease.error()).c_str());
    return 70;
  }
  malloc_trim(0);
  auto before_kib = resident_kib();
  long granted = 0;
  long refused = 0;
  {
    caf::scoped_actor self{sys};
    for (long i = 0; i < leases; ++i) {
      acquire_request request;
      request.work_id = work_id_of(i);
      post(self, request).send(*lease);
    }
    self->receive_while([&] { return granted + refused < leases; })(
      [&](const grant&) { ++granted; }, [&](const caf::error&) { ++refused; });
  }
  std::printf("granted %ld of %ld\n", granted, leases);
  auto cpu = cpu_seconds();
  auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < run)
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  auto seconds = std::chrono::duration<double>(run).count();
  auto ok = counts->renewed.load();
  std::printf("renewed %llu (%.1f/s), failed %llu, lost %llu\n",
              static_cast<unsigned long long>(ok),
              static_cast<double>(ok) / seconds,
              static_cast<unsigned long long>(counts->failed.load()),
              static_cast<unsigned long long>(counts->lost.load()));
  std::printf("confirmed before 0.75 ttl: %.4f %%, tightest window %.3f s\n",
              ok == 0 ? 0.0
                      : 100.0 * static_cast<double>(counts->early.load())
                          / static_cast<double>(ok),
              static_cast<double>(counts->tightest_us.load()) / 1e6);
  malloc_trim(0);
  auto of_lease = static_cast<double>(resident_kib() - before_kib)
                  / static_cast<double>(leases);
  std::printf("cores %.3f, memory %ld KiB, %.2f KiB a lease",
              (cpu_seconds() - cpu) / seconds, resident_kib(), of_lease);
  if (in_memory)
    std::printf(", of which %.2f KiB are the store's row", of_row);
  std::printf("\n");
  caf::anon_send_exit(*lease, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(store, caf::exit_reason::user_shutdown);
  *lease = nullptr;
  store = nullptr;
  return counts->lost == 0 && granted == leases ? 0 : 1;
}
