// SPDX-License-Identifier: Apache-2.0
//
// A lease world with workers that do what the test tells them.
#pragma once

#include "leasehold/pool.hpp"

#include "support/lease_world.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace leasehold::test {

/// A worker that does what the test tells it.
class puppet : public caf::event_based_actor {
public:
  using on_stop = std::function<void(puppet*)>;

  puppet(caf::actor_config& cfg, assignment job, on_stop stop)
    : caf::event_based_actor(cfg), job_(std::move(job)),
      stop_(std::move(stop)) {
    end_with(this, job_.hold);
  }

  void end(work_result result) {
    finish(this, job_, std::move(result));
  }

protected:
  caf::behavior make_behavior() override {
    return exit_aware(
      this,
      [this](caf::exit_msg& msg) {
        if (stop_)
          stop_(this);
        else
          quit(std::move(msg.reason));
      },
      [this](work_result& x) { end(std::move(x)); },
      [this](const std::string& what) {
        if (what == "throw")
          throw std::runtime_error("boom");
        post(this, checkpoint_request{job_.tok, what})
          .request(job_.lease, std::chrono::minutes{1})
          .then([](const confirmation&) {}, [](const caf::error&) {});
      },
      [this](ec code) { quit(code); });
  }

  void on_exit() override {
    job_ = assignment{};
  }

private:
  assignment job_;
  on_stop stop_;
};

class recording_pool_observer : public pool_observer {
public:
  std::vector<std::string> events;

  void on_slot_acquired(const token& tok, const prior&) override {
    events.push_back("acquired " + tok.work_id());
  }

  void on_slot_lost(const token& tok, ec cause, std::string_view) override {
    events.push_back("lost " + tok.work_id() + " " + to_string(cause));
  }

  void on_slot_backoff(std::string_view work_id, const token&, ec cause,
                       std::string_view, duration pause) override {
    events.push_back("backoff " + std::string{work_id} + " " + to_string(cause)
                     + " " + format_duration(pause));
  }

  void on_slot_released(const token& tok, exit_mode mode) override {
    events.push_back("released " + tok.work_id() + " " + to_string(mode));
  }

  void on_slot_retired(const token& tok) override {
    events.push_back("retired " + tok.work_id());
  }

  void on_slot_dead(std::string_view work_id, ec cause,
                    std::string_view) override {
    events.push_back("dead " + std::string{work_id} + " " + to_string(cause));
  }

  void on_slot_stuck(const token& tok, duration) override {
    events.push_back("stuck " + tok.work_id());
  }
};

struct pool_world : lease_world {
  lease_actor a = node("node-a");
  std::shared_ptr<recording_pool_observer> log
    = std::make_shared<recording_pool_observer>();
  std::map<std::string, caf::actor> workers;
  std::map<std::string, assignment> jobs;
  int starts = 0;
  puppet::on_stop on_stop;

  ~pool_world() {
    jobs.clear();
    workers.clear();
  }

  /// Spawns a puppet per run and keeps it, and its assignment, by work ID.
  worker_factory puppets() {
    return [this](caf::actor_system& system, assignment job) {
      ++starts;
      auto id = job.tok.work_id();
      jobs[id] = job;
      auto worker
        = track(caf::actor{system.spawn<puppet>(std::move(job), on_stop)});
      workers[id] = worker;
      return worker;
    };
  }

  pool_options options_for_pool(std::vector<std::string> ids) {
    pool_options options;
    options.lease = a;
    options.work_ids = std::move(ids);
    options.work = puppets();
    options.observer = log;
    options.random = seeded_random(1);
    return options;
  }

  /// What became of a call.
  template <class Result>
  struct answer {
    std::optional<Result> result;
    caf::error failed;
    bool ended = false;
  };

  /// Makes a call that may take long, from an actor of its own.
  template <class Result, class Handle, class Request>
  std::shared_ptr<answer<Result>> call(const Handle& to, Request request) {
    auto out = std::make_shared<answer<Result>>();
    spawn_fn([out, to, request](caf::event_based_actor* me) {
      post(me, request)
        .request(to, std::chrono::hours{10000})
        .then(
          [out](const Result& x) {
            out->result = x;
            out->ended = true;
          },
          [out](caf::error& err) {
            out->failed = std::move(err);
            out->ended = true;
          });
      return caf::behavior{[](int) {}};
    });
    run();
    return out;
  }

  std::shared_ptr<answer<pool_result>> run_it(const pool_actor& pool) {
    return call<pool_result>(pool, run_pool{});
  }

  pool_actor make(pool_options options) {
    auto got = spawn_pool(sys, std::move(options));
    BOOST_TEST_REQUIRE(static_cast<bool>(got));
    return track(*got);
  }

  void tell(const std::string& work_id, work_result x) {
    post_anon(workers.at(work_id), std::move(x));
    run();
  }

  bool logged(const std::string& event) {
    return std::find(log->events.begin(), log->events.end(), event)
           != log->events.end();
  }

  std::vector<std::string> active(const pool_actor& pool) {
    return ask<active_slots>(pool, get_active_slots{}).work_ids;
  }
};

} // namespace leasehold::test
