// SPDX-License-Identifier: Apache-2.0
#include "leasehold/renewal.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace leasehold::internal {

namespace {

using std::chrono::duration_cast;

// How much longer to wait for the BACKEND's answer than it may take to start:
// it decides itself, and says so, when the time is up.
constexpr auto answer_slack = std::chrono::seconds{1};

actor_time to_message(caf::actor_clock::time_point x) {
  return duration_cast<std::chrono::nanoseconds>(x.time_since_epoch()).count();
}

} // namespace

renewal::renewal(caf::actor_config& cfg, backend_actor store, loss_sink lease,
                 lease_options options)
  : renewal_impl::base(cfg), store_(std::move(store)), lease_(std::move(lease)),
    options_(std::move(options)),
    // Fine enough to lose little of a window, coarse enough that thousands of
    // leases make tens of requests per interval.
    quantum_(options_.renew / 64) {
  // nop
}

const char* renewal::name() const {
  return "leasehold.renewal";
}

renewal::behavior_type renewal::make_behavior() {
  return {
    [this](keep& what) {
      start(what);
      alarms_.arm(this, renewal_impl{this});
    },
    [this](drop& what) {
      if (what.cause != ec::none) {
        lose(what);
        return;
      }
      entries_.erase(what.number);
      alarms_.clear(what.number);
    },
    [this](const wake&) { look(); },
  };
}

void renewal::on_exit() {
  store_ = nullptr;
  lease_ = nullptr;
  entries_.clear();
  alarms_.clear();
}

void renewal::start(keep& what) {
  auto number = what.tok.number();
  auto now = clock().now();
  entry x;
  x.held = std::move(what);
  x.due = x.held.managed ? now + first_wait(*x.held.window) : time_point::max();
  x.confirmed = now;
  auto& stored = entries_[number] = std::move(x);
  arm(number, stored);
}

duration renewal::first_wait(const lease_window& window) const {
  auto whole = options_.ttl - *options_.margin;
  auto left = std::min(duration_cast<duration>(window.left()), whole);
  auto part
    = static_cast<double>(left.count()) / static_cast<double>(whole.count());
  duration wait{static_cast<duration::rep>(
    static_cast<double>(options_.renew.count()) * part)};
  return std::max(wait, std::min(options_.renew, options_.retry.first));
}

void renewal::look() {
  auto soon = clock().now() + quantum_;
  std::vector<token> due;
  std::vector<std::int64_t> early;
  while (auto number = alarms_.pop_due(soon)) {
    auto& x = entries_.at(*number);
    if (auto why = x.held.window->why_lost(); why != ec::none) {
      end(*number, why);
    } else {
      if (!x.in_flight && x.due <= soon) {
        x.in_flight = true;
        due.push_back(x.held.tok);
      }
      early.push_back(*number);
    }
  }
  for (auto number : early)
    arm(number, entries_.at(number));
  if (!due.empty())
    send_batch(std::move(due));
  alarms_.arm(this, renewal_impl{this});
}

void renewal::send_batch(std::vector<token> due) {
  store_request request;
  request.ops.reserve(due.size());
  std::vector<std::int64_t> numbers;
  numbers.reserve(due.size());
  for (auto& tok : due) {
    numbers.push_back(tok.number());
    request.ops.push_back(backend::operation::renew(tok, options_.ttl));
  }
  auto began = clock().now();
  request.not_after = to_message(began + options_.store_timeout);
  // Read last: windows count from before the request leaves.
  auto sent = options_.clock->now();
  post(this, std::move(request))
    .request(store_, options_.store_timeout + answer_slack)
    .then(
      [this, numbers, sent, began](const store_reply& reply) {
        for (std::size_t i = 0; i < numbers.size(); ++i)
          settle(numbers[i], sent, began, reply.outcomes[i]);
        alarms_.arm(this, renewal_impl{this});
      },
      [this, numbers, sent, began](const caf::error& err) {
        backend::outcome none;
        none.code = code_of(err);
        none.detail = render(err);
        for (auto number : numbers)
          settle(number, sent, began, none);
        alarms_.arm(this, renewal_impl{this});
      });
}

void renewal::settle(std::int64_t number, window_time sent, time_point began,
                     const backend::outcome& got) {
  auto pos = entries_.find(number);
  if (pos == entries_.end())
    return; // Dropped meanwhile; the answer has no effect.
  auto& x = pos->second;
  x.in_flight = false;
  auto now = clock().now();
  result_info info{got.code, got.also, got.detail,
                   duration_cast<duration>(now - began)};
  auto left = duration_cast<duration>(x.held.window->left());
  options_.observer->on_renew(x.held.tok, x.attempt, left, info);
  if (got.ok()) {
    auto until = sent + options_.ttl - *options_.margin;
    if (!x.held.window->extend(until)) {
      end(number, x.held.window->why_lost());
      return;
    }
    x.attempt = 1;
    x.confirmed = began;
    x.due = began + options_.renew;
    x.last_error.clear();
  } else if (got.code == ec::fenced) {
    options_.observer->on_fenced(x.held.tok, "Renew");
    x.last_error = got.detail;
    end(number, ec::fenced);
    return;
  } else if (got.code == ec::lease_expired) {
    x.last_error = got.detail;
    end(number, ec::lease_window_exhausted, ec::lease_expired);
    return;
  } else {
    x.last_error = to_string(got.code) + ": " + got.detail;
    auto wait
      = retry_wait(options_.retry, x.attempt, options_.random->fraction());
    // Never sleep through what is left of the window: a store that comes back
    // just before its end must be met by an attempt.
    wait = std::max(std::min(wait, left / 2), options_.retry.first);
    x.due = now + wait;
    ++x.attempt;
  }
  arm(number, x);
}

void renewal::lose(drop& what) {
  auto pos = entries_.find(what.number);
  if (pos == entries_.end())
    return; // Found out here, too, or stopped before.
  pos->second.last_error = std::move(what.detail);
  end(what.number, what.cause, what.also);
}

void renewal::end(std::int64_t number, ec cause, ec also) {
  auto node = entries_.extract(number);
  alarms_.clear(number);
  if (node.empty())
    return;
  auto& x = node.mapped();
  x.held.window->lose(cause);
  // Another party may have found out first; its cause stands.
  cause = x.held.window->why_lost();
  auto silent = duration_cast<duration>(clock().now() - x.confirmed);
  send_exit(x.held.hold, fail(cause, x.last_error, also));
  if (x.held.managed)
    options_.observer->on_lost(x.held.tok, cause, x.last_error, silent);
  post(this, lost{number, x.held.tok.work_id()}).send(lease_);
}

void renewal::arm(std::int64_t number, const entry& x) {
  auto until = window_end(x);
  alarms_.set(number, x.in_flight ? until : std::min(x.due, until));
}

renewal::time_point renewal::window_end(const entry& x) {
  return clock().now()
         + duration_cast<time_point::duration>(x.held.window->until_end());
}

} // namespace leasehold::internal
