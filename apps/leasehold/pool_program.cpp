// SPDX-License-Identifier: Apache-2.0
#include "leasehold/pool_program.hpp"

#include "leasehold/backend_actor.hpp"
#include "leasehold/child_worker.hpp"
#include "leasehold/exit_code.hpp"
#include "leasehold/held_leases.hpp"
#include "leasehold/lease_actor.hpp"
#include "leasehold/log_observer.hpp"
#include "leasehold/pool.hpp"
#include "leasehold/process/guard.hpp"
#include "leasehold/process/runtime_folder.hpp"
#include "leasehold/process/supervisor.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

namespace leasehold::app {

namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

// Nobody who wants a hard stop is that quick.
constexpr auto repetition = 1s;

using program_config
  = config_base<caf::id_block::leasehold, caf::id_block::leasehold_app>;

/// Signals that this program waits for instead of being interrupted by.
/// Blocked before any thread exists, so that no thread ever gets them.
class awaited_signals {
public:
  awaited_signals() {
    sigemptyset(&set_);
    for (auto number : {SIGTERM, SIGINT, SIGHUP, ended()})
      sigaddset(&set_, number);
    // Sent by mistake, or as other programs take them: no reason to die.
    for (auto number : {SIGUSR1, SIGUSR2, SIGALRM, SIGIO, SIGPWR})
      sigaddset(&set_, number);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    // Output that nobody reads is an error of write(), not a death.
    std::signal(SIGPIPE, SIG_IGN);
  }

  /// What we send ourselves when the last pool has ended.
  static int ended() {
    return SIGRTMIN;
  }

  int wait() const {
    int number = 0;
    sigwait(&set_, &number);
    return number;
  }

private:
  sigset_t set_{};
};

std::string default_holder() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{}:{}:{:04x}", host.data(), getpid(),
                     system_random()->next() & 0xFFFF);
}

lease_options options_of(const config::file& settings, const config::pool& pool,
                         const std::string& holder) {
  lease_options options;
  options.holder_id = holder;
  options.ttl = pool.ttl;
  options.renew = pool.renew;
  options.margin = pool.margin;
  options.retry = {pool.retry.first, pool.retry.max, pool.retry.jitter};
  options.store_timeout = settings.store.timeout;
  options.max_state_bytes = pool.max_state_bytes;
  return options;
}

slot_timing timing_of(const config::pool& pool) {
  return {pool.idle, pool.rerun, pool.backoff, pool.cleanup, pool.stop.grace};
}

/// Counts pools that have ended and wakes the main thread after the last.
class ending {
public:
  explicit ending(std::size_t pools) : left_(pools) {
    // nop
  }

  void note(bool success) {
    if (!success)
      failed_ = true;
    if (--left_ == 0)
      kill(getpid(), awaited_signals::ended());
  }

  bool failed() const {
    return failed_;
  }

private:
  std::atomic<std::size_t> left_;
  std::atomic<bool> failed_{false};
};

/// Runs one pool and reports its end.
caf::behavior run_one(caf::event_based_actor* self, pool_actor pool,
                      std::string name, logger* log, ending* end) {
  // No limit: a pool runs until it is stopped, and it lives in this process.
  post(self, run_pool{})
    .request(pool, caf::infinite)
    .then(
      [=](const pool_result& result) {
        log->write(log_level::info, "pool_ended",
                   {{"pool", name},
                    {"retired", std::to_string(result.retired)},
                    {"dead", std::to_string(result.dead)}});
        end->note(true);
        self->quit();
      },
      [=](const caf::error& err) {
        log->write(log_level::error, "pool_failed",
                   {{"pool", name}, {"reason", render(err)}});
        end->note(false);
        self->quit();
      });
  return {[](internal::wake) {}};
}

/// All actors of the program; ends them in the right order.
class program {
public:
  program(const config::file& settings, const backend::store_source& source,
          process::supervisor& children, held_leases& held, logger& log)
    : log_(log), held_(held), outages_(log), end_(settings.pools.size()) {
    if (auto err = cfg_.apply({"caf.scheduler.policy=sharing"}))
      throw std::runtime_error("cannot configure the actor system: "
                               + render(err));
    sys_ = std::make_unique<caf::actor_system>(cfg_);
    store_ = source.single_writer()
               ? spawn_backend(*sys_, source.open())
               : spawn_backends(
                 *sys_, [&source] { return source.open(); },
                 settings.store.sessions);
    auto holder
      = settings.node_holder.empty() ? default_holder() : settings.node_holder;
    log_.write(log_level::info, "starting",
               {{"holder", holder},
                {"store", source.display()},
                {"pools", std::to_string(settings.pools.size())},
                {"pid", std::to_string(getpid())}});
    for (auto& pool : settings.pools)
      add(settings, pool, holder, children);
  }

  ~program() {
    for (auto& pool : pools_)
      caf::anon_send_exit(pool, caf::exit_reason::user_shutdown);
    for (auto& lease : leases_)
      caf::anon_send_exit(lease, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(store_, caf::exit_reason::user_shutdown);
    pools_.clear();
    leases_.clear();
    store_ = nullptr;
    sys_.reset();
  }

  void start() {
    for (std::size_t i = 0; i < pools_.size(); ++i)
      sys_->spawn(run_one, pools_[i], names_[i], &log_, &end_);
  }

  void stop(bool now) {
    for (auto& pool : pools_)
      post_anon(pool, stop_pool{now ? stop_mode::now : stop_mode::stop});
  }

  bool failed() const {
    return end_.failed();
  }

private:
  template <class T>
  static T checked(caf::expected<T> got, const std::string& name) {
    if (!got)
      throw std::runtime_error("pool " + name + ": " + render(got.error()));
    return std::move(*got);
  }

  void add(const config::file& settings, const config::pool& pool,
           const std::string& holder, process::supervisor& children) {
    auto options = options_of(settings, pool, holder);
    options.observer
      = std::make_shared<lease_log>(log_, outages_, held_, pool.name, pool.ttl);
    auto lease = checked(spawn_lease(*sys_, store_, options), pool.name);
    leases_.push_back(lease);
    pool_options slots;
    slots.lease = lease;
    slots.work_ids = pool.work;
    slots.work = run_child(pool, children);
    slots.timing = timing_of(pool);
    slots.max_held = pool.max_held;
    slots.observer = std::make_shared<pool_log>(log_, pool.name);
    pools_.push_back(checked(spawn_pool(*sys_, slots), pool.name));
    names_.push_back(pool.name);
  }

  logger& log_;
  held_leases& held_;
  outage_log outages_;
  ending end_;
  program_config cfg_;
  std::unique_ptr<caf::actor_system> sys_;
  backend_actor store_;
  std::vector<lease_actor> leases_;
  std::vector<pool_actor> pools_;
  std::vector<std::string> names_;
};

/// Names the leases that successors have to wait for. Returns whether there
/// are any.
bool report_unreleased(const held_leases& held, steady_clock::time_point since,
                       logger& log) {
  auto left = held.held_at(since);
  for (auto& lease : left) {
    auto wait = std::max(lease.until - steady_clock::now(),
                         steady_clock::duration::zero());
    log.write(
      log_level::warning, "release_failed",
      {{"pool", lease.pool},
       {"work", lease.tok.work_id()},
       {"token", std::to_string(lease.tok.number())},
       {"left", approximate(std::chrono::duration_cast<duration>(wait))},
       {"detail", lease.problem.empty() ? "the store did not answer in time"
                                        : lease.problem}});
  }
  return !left.empty();
}

} // namespace

int run_pools(const config::file& settings, const backend::store_source& source,
              logger& log) {
  awaited_signals signals;
  process::guard guard; // Forks, so it comes before every thread.
  process::runtime_folder folder;
  process::supervisor_options options;
  for (auto& pool : settings.pools)
    options.max_state_bytes = std::max(
      options.max_state_bytes, static_cast<std::size_t>(pool.max_state_bytes));
  options.on_output_lost = [&log](int code) {
    log.write(log_level::warning, "output_lost",
              {{"detail", fmt::format("standard output takes no more lines of "
                                      "commands: {}",
                                      std::strerror(code))}});
  };
  options.on_guard_lost = [&log] {
    log.write(log_level::error, "guard_lost",
              {{"detail", "the helper process that ends our children if we "
                          "are killed is gone; restart this process"}});
  };
  process::supervisor children{guard, folder, options};
  held_leases held;
  program actors{settings, source, children, held, log};
  actors.start();
  auto stops = 0;
  steady_clock::time_point first_stop;
  for (;;) {
    auto number = signals.wait();
    if (number == awaited_signals::ended())
      break;
    if (number == SIGHUP) {
      log.write(log_level::warning, "reload_ignored",
                {{"detail", "this version reads its file at start only; stop "
                            "and start it"}});
      continue;
    }
    if (number != SIGTERM && number != SIGINT) {
      log.write(log_level::info, "signal_ignored",
                {{"signal", sigabbrev_np(number)}});
      continue;
    }
    auto now = steady_clock::now();
    if (stops == 1 && now - first_stop < repetition) {
      log.write(log_level::debug, "stopping",
                {{"signal", sigabbrev_np(number)}, {"repeated", "yes"}});
      continue;
    }
    if (stops == 0)
      first_stop = now;
    ++stops;
    log.write(log_level::info, stops == 1 ? "stopping" : "stopping_now",
              {{"signal", sigabbrev_np(number)}});
    actors.stop(stops > 1);
  }
  auto unreleased = report_unreleased(
    held, stops > 0 ? first_stop : steady_clock::now(), log);
  log.write(log_level::info, "stopped", {});
  if (stops > 1 || actors.failed())
    return exit_code::no;
  return unreleased ? exit_code::store_unavailable : exit_code::ok;
}

} // namespace leasehold::app
