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

void renewal::warn_if_low(entry& x) {
  auto left = duration_cast<duration>(x.held.window->left());
  if (!x.held.managed || left > *options_.warn_below
      || (x.bad && x.bad->warned))
    return;
  if (!x.bad)
    x.bad = std::make_unique<trouble>();
  x.bad->warned = true;
  options_.observer->on_window_low(x.held.tok, left, x.attempt - 1,
                                   x.bad->last_error);
}

void renewal::look() {
  auto now = clock().now();
  auto soon = now + quantum_;
  std::vector<std::int64_t> woken;
  std::vector<std::int64_t> due;
  auto must_send = false;
  while (auto number = alarms_.pop_due(soon)) {
    auto& x = entries_.at(*number);
    if (auto why = x.held.window->why_lost(); why != ec::none) {
      end(*number, why);
      continue;
    }
    warn_if_low(x);
    woken.push_back(*number);
    if (!x.in_flight && x.due <= soon) {
      due.push_back(*number);
      must_send = must_send || x.due <= now;
    }
  }
  // What is due soon goes along with what is due, but does not go early for
  // the sake of a warning.
  if (must_send) {
    for (auto number : due)
      entries_.at(number).in_flight = true;
    send_batch(due);
  }
  for (auto number : woken)
    arm(number, entries_.at(number));
  alarms_.arm(this, renewal_impl{this});
}

void renewal::send_batch(const std::vector<std::int64_t>& numbers) {
  store_request request;
  request.ops.reserve(numbers.size());
  for (auto number : numbers)
    request.ops.push_back(
      backend::operation::renew(entries_.at(number).held.tok, options_.ttl));
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
    x.due = began + options_.renew;
    if (auto bad = std::exchange(x.bad, nullptr); bad && bad->warned)
      options_.observer->on_window_safe(
        x.held.tok, duration_cast<duration>(x.held.window->left()));
  } else if (got.code == ec::fenced) {
    options_.observer->on_fenced(x.held.tok, "Renew");
    note_failure(x, got.code, got.detail);
    end(number, ec::fenced);
    return;
  } else if (got.code == ec::lease_expired) {
    note_failure(x, got.code, got.detail);
    end(number, ec::lease_window_exhausted, ec::lease_expired);
    return;
  } else {
    note_failure(x, got.code, to_string(got.code) + ": " + got.detail);
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
  if (!pos->second.bad)
    pos->second.bad = std::make_unique<trouble>();
  pos->second.bad->last_error = std::move(what.detail);
  end(what.number, what.cause, what.also);
}

void renewal::note_failure(entry& x, ec code, std::string detail) {
  constexpr std::size_t most = 16;
  if (!x.bad)
    x.bad = std::make_unique<trouble>();
  auto& bad = *x.bad;
  if (bad.attempts.size() == most) {
    bad.attempts.erase(bad.attempts.begin());
    bad.answered.erase(bad.answered.begin());
  }
  bad.attempts.push_back({code, duration::zero()});
  bad.answered.push_back(clock().now());
  bad.last_error = std::move(detail);
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
  auto now = clock().now();
  // The window knows of checkpoints, too, which confirm as renewals do.
  auto confirmed
    = x.held.window->end() - window_time{options_.ttl - *options_.margin};
  loss_report report{cause,
                     also,
                     {},
                     duration_cast<duration>(options_.clock->now() - confirmed),
                     {}};
  if (x.bad) {
    for (std::size_t i = 0; i < x.bad->attempts.size(); ++i)
      x.bad->attempts[i].ago
        = duration_cast<duration>(now - x.bad->answered[i]);
    report.last_error = x.bad->last_error;
    report.attempts = x.bad->attempts;
  }
  send_exit(x.held.hold, fail(cause, std::string{report.last_error}, also));
  if (x.held.managed)
    options_.observer->on_lost(x.held.tok, report);
  post(this, lost{number, x.held.tok.work_id()}).send(lease_);
}

void renewal::arm(std::int64_t number, const entry& x) {
  auto next = window_end(x);
  if (x.held.managed && !(x.bad && x.bad->warned))
    next -= *options_.warn_below;
  alarms_.set(number, x.in_flight ? next : std::min(x.due, next));
}

renewal::time_point renewal::window_end(const entry& x) {
  return clock().now()
         + duration_cast<time_point::duration>(x.held.window->until_end());
}

} // namespace leasehold::internal
