// SPDX-License-Identifier: Apache-2.0
//
// A world with a memory store in it, whose faults the test decides.
#pragma once

#include "leasehold/backend/memory.hpp"
#include "leasehold/backend_actor.hpp"
#include "leasehold/lease_actor.hpp"
#include "leasehold/messages.hpp"

#include "support/world.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace leasehold::test {

/// What a test can do to a store, and what it saw.
struct store_script {
  /// Answers every operation with this code and applies nothing.
  ec refuse = ec::none;

  /// Applies everything and answers unknown_outcome.
  bool lose_replies = false;

  /// Only operations of this kind are hit; absent = all.
  std::optional<backend::op_kind> only;

  /// Happens once, while the next call is in the store.
  std::function<void()> during;

  /// Every operation that reached the store, in order.
  std::vector<backend::operation> seen;

  /// How many calls to execute there were.
  int calls = 0;

  std::size_t count(backend::op_kind kind) const {
    std::size_t n = 0;
    for (auto& op : seen)
      n += op.kind == kind ? 1u : 0u;
    return n;
  }
};

/// Does to the store behind it what the script says.
class scripted_store : public backend::store {
public:
  scripted_store(std::unique_ptr<backend::memory_store> real,
                 std::shared_ptr<store_script> script)
    : real_(std::move(real)), script_(std::move(script)) {
    // nop
  }

  std::vector<backend::outcome>
  execute(std::span<const backend::operation> ops) override {
    ++script_->calls;
    if (auto happens = std::exchange(script_->during, nullptr))
      happens();
    std::vector<backend::outcome> results;
    for (auto& op : ops) {
      script_->seen.push_back(op);
      auto hit = !script_->only || *script_->only == op.kind;
      backend::outcome got;
      if (hit && script_->refuse != ec::none) {
        got.code = script_->refuse;
        got.detail = "refused by the test";
      } else {
        got = real_->execute({&op, 1}).front();
        if (hit && script_->lose_replies) {
          got = backend::outcome{};
          got.code = ec::unknown_outcome;
          got.detail = "reply lost by the test";
        }
      }
      results.push_back(std::move(got));
    }
    return results;
  }

  backend::listing list(const backend::list_query& query) override {
    return real_->list(query);
  }

  backend::sweep_result sweep(const backend::sweep_query& query) override {
    return real_->sweep(query);
  }

private:
  std::unique_ptr<backend::memory_store> real_;
  std::shared_ptr<store_script> script_;
};

/// Stands between a LEASE and its BACKEND; holds requests back while closed.
class gate : public backend_actor::base {
public:
  gate(caf::actor_config& cfg, backend_actor real, std::shared_ptr<bool> open)
    : backend_actor::base(cfg), real_(std::move(real)), open_(open) {
    // nop
  }

protected:
  behavior_type make_behavior() override {
    return {
      [this](store_request& x) -> caf::result<store_reply> {
        if (*open_)
          return post(this, std::move(x)).delegate(real_);
        auto promise = make_response_promise<store_reply>();
        held_.push_back(promise); // Never answered: the line is dead.
        return promise;
      },
      [this](list_request& x) -> caf::result<backend::listing> {
        return post(this, std::move(x)).delegate(real_);
      },
      [this](sweep_request& x) -> caf::result<backend::sweep_result> {
        return post(this, std::move(x)).delegate(real_);
      },
    };
  }

  void on_exit() override {
    real_ = nullptr;
    held_.clear();
  }

private:
  backend_actor real_;
  std::shared_ptr<bool> open_;
  std::vector<caf::typed_response_promise<store_reply>> held_;
};

/// Writes down every lease event as one word per event.
class recording_observer : public lease_observer {
public:
  std::vector<std::string> events;
  std::vector<int> attempts;
  std::vector<duration> took;
  std::size_t last_size = 0;
  ec last_code = ec::none;

  void on_acquire(std::string_view, const token& tok, const prior&,
                  const result_info& info) override {
    note(tok.empty() ? "acquire-" : "acquire", info);
  }

  void on_checkpoint(const token&, std::size_t bytes,
                     const result_info& info) override {
    last_size = bytes;
    note("checkpoint", info);
  }

  void on_renew(const token&, int attempt, duration,
                const result_info& info) override {
    attempts.push_back(attempt);
    note("renew", info);
  }

  void on_release(const token&, exit_mode mode,
                  const result_info& info) override {
    note("release " + to_string(mode), info);
  }

  void on_read_checkpoint(const token&, const prior&,
                          const result_info& info) override {
    note("read", info);
  }

  void on_forget(const token&, const result_info& info) override {
    note("forget", info);
  }

  void on_fenced(const token&, std::string_view operation) override {
    events.push_back("fenced " + std::string{operation});
  }

  void on_window_low(const token&, duration left, int tries,
                     std::string_view) override {
    events.push_back("low " + format_duration(left) + " "
                     + std::to_string(tries));
  }

  void on_window_safe(const token&, duration left) override {
    events.push_back("safe " + format_duration(left));
  }

  void on_lost(const token&, const loss_report& report) override {
    events.push_back("lost " + to_string(report.cause));
    silent_for = report.silent_for;
    last_error = report.last_error;
    failed.assign(report.attempts.begin(), report.attempts.end());
  }

  /// Of the last loss.
  duration silent_for{0};
  std::string last_error;
  std::vector<failed_attempt> failed;

  std::size_t count(std::string_view event) const {
    std::size_t n = 0;
    for (auto& x : events)
      n += x == event ? 1u : 0u;
    return n;
  }

private:
  void note(std::string event, const result_info& info) {
    last_code = info.code;
    took.push_back(info.took);
    events.push_back(std::move(event));
  }
};

/// Ends up in `reason` when the watched actor is down.
struct witness {
  std::optional<caf::error> reason;
  std::size_t order = 0;
};

struct lease_world : world<caf::id_block::leasehold>, window_clock {
  using clock = caf::actor_clock;
  using base = world<caf::id_block::leasehold>;

  ~lease_world() override {
    // They look at the window clock to the last.
    end_all();
  }

  // The window clock, as virtual as the rest; `slept` is a suspend that the
  // actor clock did not see.
  window_time now() const noexcept override {
    return std::chrono::duration_cast<window_time>(
             const_cast<lease_world*>(this)->elapsed())
           + slept;
  }

  window_time slept{0};

  /// What the store believes to be later than it is.
  duration store_skew{0};

  std::int64_t store_now() {
    auto run = std::chrono::duration_cast<duration>(elapsed());
    return 1'800'000'000'000'000 + (run + store_skew).count();
  }

  std::shared_ptr<store_script> script = std::make_shared<store_script>();
  std::shared_ptr<bool> line_is_up = std::make_shared<bool>(true);
  std::shared_ptr<recording_observer> seen
    = std::make_shared<recording_observer>();

  backend::memory_store data{[this] { return store_now(); }};

  backend_actor store
    = spawn<gate>(backend_actor{spawn<internal::backend_serializer>(
                    std::make_unique<scripted_store>(data.share(), script))},
                  line_is_up);

  lease_options options_for(std::string holder) {
    lease_options options;
    options.random = seeded_random(++processes_);
    options.holder_id = std::move(holder);
    options.ttl = std::chrono::seconds{30};
    options.margin = duration::zero();
    options.retry.jitter = 0;
    options.observer = seen;
    options.clock = this;
    return options;
  }

  lease_actor spawn_lease(lease_options options) {
    auto hdl = leasehold::spawn_lease(this->sys, store, std::move(options));
    BOOST_TEST_REQUIRE(static_cast<bool>(hdl));
    run();
    return track(*hdl);
  }

  lease_actor node(std::string holder) {
    return spawn_lease(options_for(std::move(holder)));
  }

  /// Acquires without waiting.
  grant acquire(const lease_actor& lease, std::string work_id,
                bool managed = true) {
    acquire_request request;
    request.work_id = std::move(work_id);
    request.managed = managed;
    return ask<grant>(lease, std::move(request));
  }

  caf::error acquire_error(const lease_actor& lease, std::string work_id) {
    acquire_request request;
    request.work_id = std::move(work_id);
    return ask_error<grant>(lease, std::move(request));
  }

  /// Monitors `hdl` from an actor of its own.
  template <class Handle>
  std::shared_ptr<witness> watch(const Handle& hdl) {
    auto result = std::make_shared<witness>();
    auto order = downs_;
    // Kept, since nothing refers to an actor that only monitors.
    witnesses_.push_back(
      spawn_fn([result, hdl, order](caf::event_based_actor* me) {
        auto watching = std::make_shared<watches>(me);
        watching->add(me, hdl, [result, order, me](const caf::error& why) {
          result->reason = why;
          result->order = ++*order;
          me->quit();
        });
        return caf::behavior{[watching](int) {}};
      }));
    run();
    return result;
  }

  /// The row of a work ID as the store has it now.
  std::optional<backend::row> row_of(std::string work_id) {
    backend::list_query query;
    query.work_id = std::move(work_id);
    query.with_state = true;
    auto got = data.list(query);
    if (got.rows.empty())
      return std::nullopt;
    return got.rows.front();
  }

  /// Takes a work ID away from whoever has it, as an operator would.
  void steal(const std::string& work_id) {
    auto row = row_of(work_id).value();
    auto tok = internal::token_access::make(work_id, row.holder_id, row.number,
                                            row.expires_us);
    std::vector<backend::operation> ops{
      backend::operation::release(tok, exit_mode::abandoned),
      backend::operation::acquire(work_id, "thief", std::chrono::hours{1})};
    for (auto& got : data.execute(ops))
      BOOST_TEST_REQUIRE(got.ok());
  }

private:
  std::uint64_t processes_ = 0;
  std::vector<caf::actor> witnesses_;
  std::shared_ptr<std::size_t> downs_ = std::make_shared<std::size_t>(0);
};

} // namespace leasehold::test
