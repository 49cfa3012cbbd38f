// SPDX-License-Identifier: Apache-2.0
#include "leasehold/pool.hpp"

#include "leasehold/identifier.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace leasehold {

namespace {

caf::error bad(ec code, std::string detail = {}) {
  return fail(code, std::move(detail), ec::config_invalid);
}

/// The first problem with a list of work IDs by itself.
caf::error check(const std::vector<std::string>& work_ids) {
  if (work_ids.empty())
    return bad(ec::pool_empty_work_ids);
  for (auto& work_id : work_ids) {
    if (auto problem = identifier_problem(work_id); !problem.empty())
      return bad(ec::pool_empty_work_id,
                 "work ID " + printable(work_id) + " " + std::string{problem});
  }
  std::unordered_set<std::string_view> seen;
  for (auto& work_id : work_ids) {
    if (!seen.insert(work_id).second)
      return bad(ec::pool_duplicate_work_id,
                 "work ID " + printable(work_id) + " stands there twice");
  }
  return {};
}

} // namespace

caf::error check(const pool_options& options) {
  if (!options.lease)
    return bad(ec::pool_lease_required);
  if (auto err = check(options.work_ids))
    return err;
  if (!options.work)
    return bad(ec::pool_work_fn_required);
  return {};
}

namespace internal {

namespace {

caf::error gone_error() {
  return fail(ec::cancelled, "the lease actor of the pool ended");
}

} // namespace

pool::pool(caf::actor_config& cfg, pool_options options)
  : pool_impl::base(cfg), max_held_(options.max_held), watches_(this) {
  auto shared = std::make_shared<slot_options>();
  shared->lease = std::move(options.lease);
  shared->work = std::move(options.work);
  shared->timing = completed(options.timing);
  shared->observer = options.observer ? std::move(options.observer)
                                      : std::make_shared<pool_observer>();
  shared->random = options.random ? std::move(options.random) : system_random();
  shared->wait = max_held_ == 0;
  shared_ = std::move(shared);
  members_.reserve(options.work_ids.size());
  for (auto& work_id : options.work_ids)
    put(work_id);
}

const char* pool::name() const {
  return "leasehold.pool";
}

pool::behavior_type pool::make_behavior() {
  watches_.add(this, shared_->lease, [this](const caf::error&) {
    // Without it no slot will ever run again.
    lease_is_gone_ = true;
    if (running_)
      stop(stop_mode::stop);
  });
  return {
    [this](const run_pool&) -> caf::result<pool_result> {
      if (running_)
        return fail(ec::pool_running);
      if (lease_is_gone_)
        return gone_error();
      auto promise = make_response_promise<pool_result>();
      run(promise);
      return promise;
    },
    [this](const stop_pool& request) {
      if (running_)
        stop(request.how);
    },
    [this](const get_active_slots&) -> caf::result<active_slots> {
      active_slots result;
      for (auto& x : members_)
        if (x.phase == slot_phase::running)
          result.work_ids.push_back(*x.work_id);
      return result;
    },
    [this](const add_work& x) -> caf::result<added_work> {
      if (auto err = add(x.work_ids))
        return err;
      return added_work{static_cast<std::uint32_t>(x.work_ids.size())};
    },
    [this](const remove_work& x) { return remove(x); },
    [this](const slot_wants& x) {
      auto& slot = members_[x.index];
      if (stopping_ || !slot.actor || !slot.leaving.empty())
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
      if (stopping_ || !members_[x.index].leaving.empty())
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
  for (auto& x : members_) {
    if (x.actor)
      post_anon(x.actor, slot_stop{});
    for (auto& call : x.leaving)
      if (call->promise.pending())
        call->promise.deliver(fail(ec::cancelled, "the pool actor ended"));
  }
  members_.clear();
  alarms_.clear();
  if (running_)
    promise_.deliver(fail(ec::cancelled, "the pool actor ended"));
  shared_.reset();
}

void pool::run(caf::typed_response_promise<pool_result> promise) {
  running_ = true;
  stopping_ = false;
  permits_out_ = 0;
  alive_ = 0;
  queue_.clear();
  alarms_.clear();
  promise_ = std::move(promise);
  for (std::uint32_t i = 0; i < members_.size(); ++i) {
    if (members_[i].work_id != nullptr) {
      ++alive_;
      start_slot(i);
    }
  }
}

void pool::stop(stop_mode how) {
  stopping_ = true;
  queue_.clear();
  alarms_.clear();
  for (auto& x : members_)
    if (x.actor)
      post(this, slot_stop{how}).send(x.actor);
  finish_if_all_ended();
}

// -- units of work come and go ------------------------------------------------

caf::error pool::add(const std::vector<std::string>& work_ids) {
  if (auto err = check(work_ids))
    return err;
  auto is_in = [this](const std::string& work_id) {
    auto pos = index_of_.find(work_id);
    if (pos == index_of_.end())
      return false;
    auto& x = members_[pos->second];
    return x.leaving.empty() || x.returns;
  };
  for (auto& work_id : work_ids)
    if (is_in(work_id))
      return bad(ec::pool_duplicate_work_id,
                 "work ID " + printable(work_id) + " is in the pool already");
  for (auto& work_id : work_ids)
    put(work_id);
  return {};
}

void pool::put(const std::string& work_id) {
  if (auto pos = index_of_.find(work_id); pos != index_of_.end()) {
    // It is on its way out.
    members_[pos->second].returns = true;
    return;
  }
  auto index = static_cast<std::uint32_t>(members_.size());
  if (vacant_.empty()) {
    members_.emplace_back();
  } else {
    index = vacant_.back();
    vacant_.pop_back();
  }
  members_[index].work_id = &index_of_.emplace(work_id, index).first->first;
  if (running_ && !stopping_) {
    ++alive_;
    start_slot(index);
  }
}

caf::result<removed_work> pool::remove(const remove_work& request) {
  for (auto& work_id : request.work_ids)
    if (index_of_.count(work_id) == 0)
      return fail(ec::invalid_argument,
                  "work ID " + printable(work_id) + " is not in the pool");
  auto call = std::make_shared<removal>();
  for (auto& work_id : request.work_ids) {
    auto pos = index_of_.find(work_id);
    if (pos == index_of_.end())
      continue; // Stood there twice.
    auto& x = members_[pos->second];
    if (!x.leaving.empty() && x.leaving.back() == call)
      continue;
    ++call->count.count;
    x.returns = false;
    if (x.actor) {
      ++call->missing;
      x.leaving.push_back(call);
      post(this, slot_stop{request.how}).send(x.actor);
    } else {
      erase(pos->second);
    }
  }
  if (call->missing == 0)
    return call->count;
  call->promise = make_response_promise<removed_work>();
  return call->promise;
}

void pool::erase(std::uint32_t index) {
  forget_turn(index);
  auto work_id = *members_[index].work_id;
  members_[index] = member{};
  index_of_.erase(work_id);
  vacant_.push_back(index);
}

// -- SLOTs --------------------------------------------------------------------

void pool::forget_turn(std::uint32_t index) {
  std::erase(queue_, index);
  alarms_.clear(index);
}

void pool::start_slot(std::uint32_t index) {
  // What the one before it was waiting for is not this one's.
  forget_turn(index);
  auto& x = members_[index];
  x.phase = slot_phase::idle;
  x.permit = false;
  x.actor
    = spawn<slot>(*x.work_id, index, slot_keeper{pool_impl{this}}, shared_);
  watches_.add(this, x.actor,
               [this, index](const caf::error&) { on_slot_down(index); });
}

void pool::hand_out_permits() {
  while (!queue_.empty() && (max_held_ == 0 || permits_out_ < max_held_)) {
    auto& x = members_[queue_.front()];
    queue_.pop_front();
    if (!x.actor || !x.leaving.empty() || x.permit)
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
  auto calls = std::exchange(x.leaving, {});
  auto returns = std::exchange(x.returns, false);
  for (auto& call : calls)
    if (--call->missing == 0)
      call->promise.deliver(call->count);
  if (!calls.empty() && !returns) {
    --alive_;
    erase(index);
  } else if (!stopping_ && (returns || !has_ended(x))) {
    // Added anew; or it died without a word (an observer that throws, say): its
    // lease lapses, and its work ID must not be orphaned.
    start_slot(index);
    return;
  } else {
    --alive_;
  }
  hand_out_permits();
  finish_if_all_ended();
}

bool pool::has_ended(const member& x) {
  return x.phase == slot_phase::retired || x.phase == slot_phase::dead
         || x.phase == slot_phase::stopped;
}

void pool::finish_if_all_ended() {
  if (!running_ || alive_ > 0 || (index_of_.empty() && !stopping_))
    return;
  running_ = false;
  pool_result result;
  for (auto& x : members_) {
    result.retired += x.phase == slot_phase::retired ? 1 : 0;
    result.dead += x.phase == slot_phase::dead ? 1 : 0;
  }
  if (lease_is_gone_)
    promise_.deliver(gone_error());
  else if (result.dead > 0 && result.dead == index_of_.size())
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
