// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/messages.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace leasehold::internal {

/// Any number of deadlines behind one CAF timer. CAF's own timers cost a
/// linear search each in some versions and cannot be cancelled in others; an
/// actor with thousands of deadlines keeps them here and gets one `wake`.
///
/// A wake carries no meaning: the owner asks `pop_due` what is due, so a stale
/// or early one does no harm.
template <class Key>
class alarms {
public:
  using time_point = caf::actor_clock::time_point;

  /// Sets, or moves, the deadline of `key`.
  void set(const Key& key, time_point when) {
    auto [pos, fresh] = when_.try_emplace(key, when);
    if (!fresh) {
      order_.erase({pos->second, key});
      pos->second = when;
    }
    order_.insert({when, key});
  }

  void clear(const Key& key) {
    if (auto pos = when_.find(key); pos != when_.end()) {
      order_.erase({pos->second, key});
      when_.erase(pos);
    }
  }

  void clear() {
    order_.clear();
    when_.clear();
  }

  /// Takes the earliest deadline that is not after `now`.
  std::optional<Key> pop_due(time_point now) {
    if (order_.empty() || order_.begin()->first > now)
      return std::nullopt;
    auto key = order_.begin()->second;
    when_.erase(key);
    order_.erase(order_.begin());
    return key;
  }

  /// Makes sure that `to`, a handle to `self`, gets a `wake` at the earliest
  /// deadline. Call it after each change.
  template <class Self, class Handle>
  void arm(Self* self, const Handle& to) {
    if (order_.empty())
      return;
    auto now = self->clock().now();
    auto next = std::max(order_.begin()->first, now);
    if (armed_ && *armed_ <= next && *armed_ > now)
      return;
    armed_ = next;
    post(self, wake{}).delay(next - now).send(to);
  }

private:
  std::set<std::pair<time_point, Key>> order_;
  std::unordered_map<Key, time_point> when_;
  std::optional<time_point> armed_;
};

} // namespace leasehold::internal
