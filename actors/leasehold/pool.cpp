// SPDX-License-Identifier: Apache-2.0
#include "leasehold/pool.hpp"

#include "leasehold/identifier.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace leasehold {

namespace {

using namespace std::chrono_literals;

slot_timing completed(slot_timing timing) {
  auto fill = [](duration& x, duration standard) {
    x = x <= duration::zero() ? standard : std::min(x, max_duration);
  };
  fill(timing.idle, 1s);
  fill(timing.rerun, 1s);
  fill(timing.backoff, 1s);
  fill(timing.cleanup, 5s);
  timing.grace = std::clamp(timing.grace, duration::zero(), max_duration);
  return timing;
}

} // namespace

caf::error check(const pool_options& options) {
  auto bad = [](ec code, std::string detail = {}) {
    return fail(code, std::move(detail), ec::config_invalid);
  };
  if (!options.lease)
    return bad(ec::pool_lease_required);
  if (options.work_ids.empty())
    return bad(ec::pool_empty_work_ids);
  std::unordered_set<std::string_view> seen;
  for (auto& work_id : options.work_ids) {
    if (auto problem = identifier_problem(work_id); !problem.empty())
      return bad(ec::pool_empty_work_id,
                 "work ID " + printable(work_id) + " " + std::string{problem});
  }
  for (auto& work_id : options.work_ids) {
    if (!seen.insert(work_id).second)
      return bad(ec::pool_duplicate_work_id,
                 "work ID " + printable(work_id) + " stands there twice");
  }
  if (!options.work)
    return bad(ec::pool_work_fn_required);
  return {};
}

namespace internal {

pool::pool(caf::actor_config& cfg, pool_options options)
  : pool_impl::base(cfg), work_ids_(std::move(options.work_ids)),
    max_held_(options.max_held), watches_(this) {
  auto shared = std::make_shared<slot_options>();
  shared->lease = std::move(options.lease);
  shared->work = std::move(options.work);
  shared->timing = completed(options.timing);
  shared->observer = options.observer ? std::move(options.observer)
                                      : std::make_shared<pool_observer>();
  shared->random = options.random ? std::move(options.random) : system_random();
  shared_ = std::move(shared);
}

const char* pool::name() const {
  return "leasehold.pool";
}

pool::behavior_type pool::make_behavior() {
  return {
    [this](const run_pool&) -> caf::result<pool_result> {
      if (running_)
        return fail(ec::pool_running);
      running_ = true;
      stopping_ = false;
      permits_out_ = 0;
      queue_.clear();
      alarms_.clear();
      members_.clear();
      members_.resize(work_ids_.size());
      alive_ = static_cast<std::uint32_t>(work_ids_.size());
      promise_ = make_response_promise<pool_result>();
      for (std::uint32_t i = 0; i < members_.size(); ++i)
        start_slot(i);
      return promise_;
    },
    [this](const stop_pool& request) {
      if (!running_)
        return;
      stopping_ = true;
      queue_.clear();
      alarms_.clear();
      for (auto& x : members_)
        if (x.actor)
          post(this, slot_stop{request.now}).send(x.actor);
    },
    [this](const get_active_slots&) -> caf::result<active_slots> {
      active_slots result;
      for (std::size_t i = 0; i < members_.size(); ++i)
        if (members_[i].phase == slot_phase::running)
          result.work_ids.push_back(work_ids_[i]);
      return result;
    },
    [this](const slot_wants& x) {
      if (stopping_ || !members_[x.index].actor)
        return;
      queue_.push_back(x.index);
      hand_out_permits();
    },
    [this](const slot_is& x) {
      auto& slot = members_[x.index];
      slot.phase = x.phase;
      if (slot.permit && !x.permit) {
        slot.permit = false;
        --permits_out_;
        hand_out_permits();
      }
    },
    [this](const slot_sleeps& x) {
      if (stopping_)
        return;
      alarms_.set(x.index, clock().now() + x.pause);
      alarms_.arm(this, pool_impl{this});
    },
    [this](const wake&) {
      while (auto index = alarms_.pop_due(clock().now()))
        if (members_[*index].actor)
          post(this, slot_wake{}).send(members_[*index].actor);
      alarms_.arm(this, pool_impl{this});
    },
  };
}

void pool::on_exit() {
  // Not an exit message: it would end a SLOT before its worker, or before the
  // answer to its acquire, and nobody would give back what that brings.
  for (auto& x : members_)
    if (x.actor)
      post_anon(x.actor, slot_stop{});
  members_.clear();
  alarms_.clear();
  if (running_)
    promise_.deliver(fail(ec::cancelled, "the pool actor ended"));
  shared_.reset();
}

void pool::start_slot(std::uint32_t index) {
  auto& x = members_[index];
  x = member{};
  x.actor = spawn<slot>(work_ids_[index], index, slot_keeper{pool_impl{this}},
                        shared_);
  watches_.add(this, x.actor,
               [this, index](const caf::error&) { on_slot_down(index); });
}

void pool::hand_out_permits() {
  while (!queue_.empty() && (max_held_ == 0 || permits_out_ < max_held_)) {
    auto& x = members_[queue_.front()];
    queue_.pop_front();
    if (!x.actor)
      continue;
    x.permit = true;
    ++permits_out_;
    post(this, slot_go{}).send(x.actor);
  }
}

void pool::on_slot_down(std::uint32_t index) {
  auto& x = members_[index];
  x.actor = nullptr;
  if (x.permit) {
    x.permit = false;
    --permits_out_;
  }
  auto ended = x.phase == slot_phase::retired || x.phase == slot_phase::dead
               || x.phase == slot_phase::stopped;
  if (!ended && !stopping_) {
    // A slot that died without a word (an observer that throws, say): its
    // lease lapses, and its work ID must not be orphaned.
    start_slot(index);
    return;
  }
  --alive_;
  hand_out_permits();
  finish_if_all_ended();
}

void pool::finish_if_all_ended() {
  if (alive_ > 0)
    return;
  running_ = false;
  pool_result result;
  for (auto& x : members_) {
    result.retired += x.phase == slot_phase::retired ? 1 : 0;
    result.dead += x.phase == slot_phase::dead ? 1 : 0;
  }
  if (result.dead == members_.size())
    promise_.deliver(fail(ec::pool_all_slots_dead));
  else
    promise_.deliver(result);
}

} // namespace internal

caf::expected<pool_actor> spawn_pool(caf::actor_system& sys,
                                     pool_options options) {
  if (auto err = check(options))
    return err;
  return pool_actor{sys.spawn<internal::pool>(std::move(options))};
}

} // namespace leasehold
