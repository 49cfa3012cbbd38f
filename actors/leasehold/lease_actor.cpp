// SPDX-License-Identifier: Apache-2.0
#include "leasehold/lease_actor.hpp"

#include "leasehold/hold.hpp"
#include "leasehold/renewal.hpp"
#include "leasehold/run_end.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

namespace leasehold {

namespace internal {

namespace {

using std::chrono::duration_cast;
using namespace std::chrono_literals;

constexpr duration default_poll = 2s;

// How late an acquire at an expiry may come so that it shares a statement.
constexpr caf::actor_clock::duration_type meeting_quantum = 4ms;

// Beyond the time the BACKEND may take to start: it answers by itself when
// that has passed.
constexpr auto answer_slack = 1s;

actor_time to_message(caf::actor_clock::time_point x) {
  return duration_cast<std::chrono::nanoseconds>(x.time_since_epoch()).count();
}

std::string describe_holder(const std::string& work_id,
                            const backend::outcome& got) {
  auto left = duration{got.expires_us - got.now_us};
  return printable(work_id) + " is held by " + printable(got.holder_id)
         + " (token " + std::to_string(got.number) + ") for another "
         + approximate(std::max(left, duration::zero()));
}

caf::error cancelled_error(const std::string& work_id) {
  return fail(ec::cancelled,
              "the acquisition of " + printable(work_id) + " was cancelled");
}

caf::error fenced_error(const token& tok) {
  return fail(ec::fenced, printable(tok.work_id()) + " is no longer held by "
                            + printable(tok.holder_id()) + " with token "
                            + std::to_string(tok.number()));
}

} // namespace

lease::lease(caf::actor_config& cfg, backend_actor store, lease_options options)
  : lease_impl::base(cfg), store_(std::move(store)),
    options_(std::move(options)), watches_(this) {
  // nop
}

const char* lease::name() const {
  return "leasehold.lease";
}

lease::behavior_type lease::make_behavior() {
  spawn_renewal();
  return exit_aware(
    this,
    [this](caf::exit_msg& msg) {
      end_holds(msg.reason);
      quit(std::move(msg.reason));
    },
    [this](acquire_request& x) { return start(x); },
    [this](const cancel_acquire& x) { cancel(x); },
    [this](const keep_request& x) -> caf::result<confirmation> {
      auto* entry = find(x.tok);
      if (entry == nullptr || entry->stopped || !entry->hold)
        return fail(ec::lease_expired,
                    printable(x.tok.work_id()) + " is not held with token "
                      + std::to_string(x.tok.number())
                      + " any more; acquire it again to keep it");
      if (auto why = dead(x.tok))
        return why;
      entry->managed = true;
      post(this, keep{entry->tok, entry->hold, entry->window}).send(renewal_);
      return confirmation{x.tok.expires_us()};
    },
    [this](const stop_request& x) {
      if (auto* entry = find(x.tok))
        stop(*entry);
    },
    [this](read_request& x) { return read(x); },
    [this](checkpoint_request& x) { return checkpoint(x); },
    [this](renew_request& x) { return renew(x); },
    [this](release_request& x) { return release(x); },
    [this](forget_request& x) { return forget(x); },
    [this](const lost& x) {
      // The RENEWAL has ended the HOLD already; the books follow.
      auto pos = held_.find(x.work_id);
      if (pos != held_.end() && pos->second.tok.number() == x.number
          && pos->second.after_down.empty())
        pos->second.hold = nullptr;
    },
    [this](const flush&) { flush_outbox(); }, [this](const wake&) { look(); });
}

void lease::on_exit() {
  // Empty after an exit message; otherwise this actor ended by an error.
  for (auto& [work_id, entry] : held_)
    if (entry.hold)
      caf::anon_send_exit(entry.hold, caf::exit_reason::user_shutdown);
  held_.clear();
  caf::anon_send_exit(renewal_, caf::exit_reason::user_shutdown);
  for (auto& [id, call] : acquisitions_)
    call.promise.deliver(fail(ec::cancelled, "the lease actor ended"));
  acquisitions_.clear();
  queues_.clear();
  tickets_.clear();
  answer_the_rest();
  outbox_.clear();
  alarms_.clear();
  renewal_ = nullptr;
  store_ = nullptr;
}

void lease::end_holds(const caf::error& reason) {
  for (auto& [work_id, entry] : held_) {
    if (entry.hold)
      send_exit(entry.hold, reason);
    for (auto& answer : entry.after_down)
      answer();
  }
  held_.clear();
}

// -- acquire ------------------------------------------------------------------

caf::result<grant> lease::start(acquire_request& request) {
  if (auto problem = identifier_problem(request.work_id); !problem.empty())
    return fail(ec::invalid_argument, "work ID " + printable(request.work_id)
                                        + " " + std::string{problem});
  auto id = ++last_id_;
  acquisition x;
  x.request = std::move(request);
  if (x.request.poll <= duration::zero())
    x.request.poll = default_poll;
  x.request.poll = std::min(x.request.poll, max_duration);
  if (x.request.timeout > duration::zero())
    x.deadline = clock().now() + std::min(x.request.timeout, max_duration);
  x.promise = make_response_promise<grant>();
  auto promise = x.promise;
  if (x.request.ticket != 0)
    tickets_.emplace(x.request.ticket, id);
  if (x.request.wait)
    queues_[x.request.work_id].push_back(id);
  auto& call = acquisitions_.emplace(id, std::move(x)).first->second;
  if (is_first(id, call))
    attempt(id);
  else
    arm(id, call);
  alarms_.arm(this, lease_impl{this});
  return promise;
}

void lease::cancel(const cancel_acquire& request) {
  std::vector<std::uint64_t> ids;
  auto [first, last] = tickets_.equal_range(request.ticket);
  for (; first != last; ++first)
    ids.push_back(first->second);
  for (auto id : ids) {
    auto& x = acquisitions_.at(id);
    if (request.after_attempt && x.in_flight)
      x.last = true;
    else
      refuse(id, cancelled_error(x.request.work_id));
  }
}

void lease::attempt(std::uint64_t id) {
  auto& x = acquisitions_.at(id);
  x.in_flight = true;
  arm(id, x);
  std::int64_t request = 0;
  if (auto node = unanswered_.extract(x.request.work_id))
    request = node.mapped();
  else
    request = static_cast<std::int64_t>(options_.random->next() >> 1) | 1;
  auto op = backend::operation::acquire(x.request.work_id, options_.holder_id,
                                        options_.ttl, request);
  submit(std::move(op), [this, id, request, work_id = x.request.work_id](
                          backend::outcome& got, const departure& left) {
    on_attempt(id, work_id, request, got, left);
  });
}

void lease::on_attempt(std::uint64_t id, const std::string& work_id,
                       std::int64_t request, backend::outcome& got,
                       const departure& left) {
  token tok;
  if (got.ok())
    tok = token_access::make(work_id, options_.holder_id, got.number,
                             got.expires_us);
  options_.observer->on_acquire(work_id, tok, got.previous, info_of(got, left));
  // One that surely did nothing may be the repeat of one that did something:
  // it stays to be repeated until the store has spoken.
  if (got.code == ec::unknown_outcome || got.code == ec::unavailable
      || got.code == ec::deadline_exceeded)
    unanswered_[work_id] = request;
  auto pos = acquisitions_.find(id);
  if (pos == acquisitions_.end()) {
    // Timed out or cancelled meanwhile.
    if (got.ok())
      give_back(tok, got.previous.exit, request);
    return;
  }
  auto& x = pos->second;
  x.in_flight = false;
  if (got.ok()) {
    auto won = install(x.request, got, left);
    auto call = take(id);
    if (won) {
      call.promise.deliver(std::move(*won));
    } else {
      give_back(tok, got.previous.exit, request);
      call.promise.deliver(
        fail(ec::lease_window_exhausted,
             "the grant of " + printable(work_id)
               + " took longer to arrive than the lease lasts"));
    }
  } else if (got.code == ec::lease_held && x.last) {
    refuse(id, cancelled_error(work_id));
  } else if (got.code == ec::lease_held && x.request.wait) {
    x.next_poll = next_look(x.request, duration{got.expires_us - got.now_us});
    arm(id, x);
    alarms_.arm(this, lease_impl{this});
  } else if (got.code == ec::lease_held) {
    refuse(id, fail(ec::lease_held, describe_holder(work_id, got)));
  } else {
    refuse(id, to_error(got));
  }
}

std::optional<grant> lease::install(const acquire_request& request,
                                    backend::outcome& got,
                                    const departure& left) {
  auto& work_id = request.work_id;
  if (auto pos = held_.find(work_id); pos != held_.end()) {
    // A new grant proves that the older token is superseded.
    lose(pos->second, ec::fenced, ec::none, "acquired anew by this process");
    erase(work_id);
  }
  // A repeated request may be answered with a grant that is older than it.
  auto lasts = std::min(options_.ttl, duration{got.expires_us - got.now_us});
  auto until = left.window + lasts - *options_.margin;
  if (options_.clock->now() >= until)
    return std::nullopt;
  held x;
  x.tok = token_access::make(work_id, options_.holder_id, got.number,
                             got.expires_us);
  x.managed = request.managed;
  x.window = std::make_shared<lease_window>(*options_.clock, until);
  x.hold = make_passive<hold, hold_actor>(system(), x.tok);
  // First to monitor, hence last to hear: see held::after_down.
  watches_.add(this, x.hold, [this, tok = x.tok](const caf::error&) {
    auto* entry = find(tok);
    if (entry == nullptr)
      return;
    entry->hold = nullptr;
    for (auto& answer : std::exchange(entry->after_down, {}))
      answer();
  });
  post(this, keep{x.tok, x.hold, x.window, request.managed}).send(renewal_);
  grant result{x.tok, std::move(got.previous), x.hold, x.window};
  held_.insert_or_assign(work_id, std::move(x));
  return result;
}

void lease::give_back(const token& tok, exit_mode found, std::int64_t request) {
  auto mode = unused_exit(found);
  submit(
    backend::operation::release(tok, mode),
    [this, tok, mode, request](backend::outcome& got, const departure& left) {
      options_.observer->on_release(tok, mode, info_of(got, left));
      // Perhaps it is ours still: the next acquire is to find it.
      if (!got.ok() && got.code != ec::fenced && got.code != ec::lease_expired)
        unanswered_[tok.work_id()] = request;
      hint(tok.work_id());
    });
}

void lease::refuse(std::uint64_t id, caf::error why) {
  take(id).promise.deliver(std::move(why));
}

lease::acquisition lease::take(std::uint64_t id) {
  auto result = std::move(acquisitions_.extract(id).mapped());
  alarms_.clear(id);
  auto [first, last] = tickets_.equal_range(result.request.ticket);
  for (; first != last; ++first) {
    if (first->second == id) {
      tickets_.erase(first);
      break;
    }
  }
  auto queue = queues_.find(result.request.work_id);
  if (!result.request.wait || queue == queues_.end())
    return result;
  auto was_first = queue->second.front() == id;
  std::erase(queue->second, id);
  if (queue->second.empty()) {
    queues_.erase(queue);
  } else if (was_first) {
    auto next = queue->second.front();
    auto& x = acquisitions_.at(next);
    // It takes over when to look, too: the expiry that the store told stays
    // what it is, and waiters that give up early do not keep it from coming.
    x.next_poll = clock().now() + x.request.poll;
    if (result.next_poll != time_point{})
      x.next_poll = std::min(x.next_poll, result.next_poll);
    arm(next, x);
    alarms_.arm(this, lease_impl{this});
  }
  return result;
}

void lease::hint(const std::string& work_id) {
  auto queue = queues_.find(work_id);
  if (queue == queues_.end())
    return;
  auto first = queue->second.front();
  if (!acquisitions_.at(first).in_flight)
    attempt(first);
}

bool lease::is_first(std::uint64_t id, const acquisition& x) {
  return !x.request.wait || queues_.at(x.request.work_id).front() == id;
}

lease::time_point lease::next_look(const acquire_request& request,
                                   duration left) {
  auto now = clock().now();
  // Free from the first millisecond after the expiry on.
  auto expiry = now + std::max(left, duration::zero()) + duration{1ms};
  auto poll = now + request.poll;
  if (request.spread <= duration::zero())
    return std::min(expiry, poll);
  if (expiry < poll) {
    // Leases that were renewed together expire almost together.
    auto past = expiry.time_since_epoch() % meeting_quantum;
    return expiry + (meeting_quantum - past);
  }
  // The last meeting in reach, so that groups that once met stay together and
  // those that did not join each other by and by.
  auto spread = std::min(request.spread, max_duration);
  meetings_.erase(meetings_.begin(), meetings_.lower_bound(now));
  auto pos = meetings_.lower_bound(poll + spread);
  if (pos != meetings_.begin() && *std::prev(pos) >= poll)
    return *std::prev(pos);
  auto when
    = poll
      + duration{static_cast<duration::rep>(
        options_.random->fraction() * static_cast<double>(spread.count()))};
  meetings_.insert(when);
  return when;
}

void lease::arm(std::uint64_t id, const acquisition& x) {
  auto polls = !x.in_flight && x.next_poll != time_point{} && is_first(id, x);
  if (polls && x.deadline)
    alarms_.set(id, std::min(x.next_poll, *x.deadline));
  else if (polls)
    alarms_.set(id, x.next_poll);
  else if (x.deadline)
    alarms_.set(id, *x.deadline);
  else
    alarms_.clear(id);
}

void lease::look() {
  auto now = clock().now();
  while (auto id = alarms_.pop_due(now)) {
    auto& x = acquisitions_.at(*id);
    if (x.deadline && *x.deadline <= now) {
      auto text = printable(x.request.work_id) + " was not free within "
                  + approximate(x.request.timeout);
      refuse(*id, fail(ec::deadline_exceeded, std::move(text)));
    } else if (!x.in_flight && is_first(*id, x)) {
      attempt(*id);
    }
  }
  alarms_.arm(this, lease_impl{this});
}

// -- RENEWAL ------------------------------------------------------------------

void lease::spawn_renewal() {
  renewal_ = spawn<renewal>(store_, loss_sink{lease_impl{this}}, options_);
  watches_.add(this, renewal_,
               [this](const caf::error&) { replace_renewal(); });
}

void lease::replace_renewal() {
  spawn_renewal();
  for (auto& [work_id, entry] : held_)
    if (entry.hold && !entry.stopped)
      post(this, keep{entry.tok, entry.hold, entry.window, entry.managed})
        .send(renewal_);
}

// -- operations with a token --------------------------------------------------

lease::held* lease::find(const token& tok) {
  auto pos = held_.find(tok.work_id());
  if (pos == held_.end() || pos->second.tok.number() != tok.number())
    return nullptr;
  return &pos->second;
}

void lease::erase(const std::string& work_id) {
  auto node = held_.extract(work_id);
  if (!node.empty())
    for (auto& answer : node.mapped().after_down)
      answer();
}

caf::error lease::dead(const token& tok) {
  auto* entry = find(tok);
  if (entry == nullptr || entry->stopped)
    return {};
  auto why = entry->window->why_lost();
  if (why == ec::none)
    return {};
  if (why == ec::fenced)
    return fenced_error(tok);
  return fail(why, printable(tok.work_id())
                     + " was lost by this process; its token is dead");
}

caf::result<confirmation> lease::refuse(const token& tok, caf::error why) {
  auto* entry = find(tok);
  if (entry == nullptr || !entry->hold)
    return why;
  // A worker hears of its end by its down message first.
  lose(*entry, entry->window->why_lost(), ec::none, {});
  auto promise = make_response_promise<confirmation>();
  entry->after_down.push_back(
    [promise, why]() mutable { promise.deliver(std::move(why)); });
  return promise;
}

caf::result<confirmation> lease::checkpoint(checkpoint_request& request) {
  if (auto why = dead(request.tok))
    return refuse(request.tok, std::move(why));
  auto* entry = find(request.tok);
  auto sequence = entry != nullptr ? ++entry->sequence : 0;
  auto size = request.state ? request.state->size() : 0;
  auto op = backend::operation::checkpoint(request.tok, options_.ttl,
                                           std::move(request.state), sequence);
  if (auto bad = check(op, options_.max_state_bytes); !bad.ok())
    return to_error(bad);
  auto promise = make_response_promise<confirmation>();
  submit(std::move(op), [this, promise, size, tok = request.tok](
                          backend::outcome& got, const departure& left) {
    options_.observer->on_checkpoint(tok, size, info_of(got, left));
    settle(tok, "Checkpoint", got, left, promise);
  });
  return promise;
}

caf::result<confirmation> lease::renew(renew_request& request) {
  if (auto why = dead(request.tok))
    return refuse(request.tok, std::move(why));
  auto promise = make_response_promise<confirmation>();
  submit(backend::operation::renew(request.tok, options_.ttl),
         [this, promise, tok = request.tok](backend::outcome& got,
                                            const departure& left) {
           auto* entry = find(tok);
           auto margin = entry != nullptr ? entry->window->left()
                                          : std::chrono::nanoseconds::zero();
           options_.observer->on_renew(tok, 1, duration_cast<duration>(margin),
                                       info_of(got, left));
           settle(tok, "Renew", got, left, promise);
         });
  return promise;
}

caf::result<confirmation> lease::release(release_request& request) {
  auto repeat = false;
  if (auto* entry = find(request.tok); entry != nullptr) {
    repeat = is_declarable(request.exit)
             && entry->unanswered_release == request.exit;
  }
  auto op = backend::operation::release(request.tok, request.exit, repeat);
  // Before anything else: a wrong mode must not even stop the renewal.
  if (auto bad = check(op, options_.max_state_bytes); !bad.ok())
    return to_error(bad);
  if (auto* entry = find(request.tok))
    stop(*entry);
  auto promise = make_response_promise<confirmation>();
  submit(std::move(op), [this, promise, tok = request.tok, mode = request.exit](
                          backend::outcome& got, const departure& left) {
    options_.observer->on_release(tok, mode, info_of(got, left));
    if (auto* entry = find(tok)) {
      if (got.code == ec::unknown_outcome)
        entry->unanswered_release = mode;
      else if (got.ok() || got.code == ec::fenced
               || got.code == ec::lease_expired)
        erase(tok.work_id());
    }
    settle(tok, "Release", got, left, promise);
    if (got.ok())
      hint(tok.work_id());
  });
  return promise;
}

caf::result<confirmation> lease::forget(forget_request& request) {
  if (auto* entry = find(request.tok))
    stop(*entry);
  auto promise = make_response_promise<confirmation>();
  submit(backend::operation::forget(request.tok),
         [this, promise, tok = request.tok](backend::outcome& got,
                                            const departure& left) {
           options_.observer->on_forget(tok, info_of(got, left));
           if (find(tok) != nullptr && (got.ok() || got.code == ec::fenced))
             erase(tok.work_id());
           settle(tok, "Forget", got, left, promise);
           if (got.ok())
             hint(tok.work_id());
         });
  return promise;
}

caf::result<prior> lease::read(read_request& request) {
  auto promise = make_response_promise<prior>();
  submit(backend::operation::read(request.tok),
         [this, promise, tok = request.tok](backend::outcome& got,
                                            const departure& left) mutable {
           options_.observer->on_read_checkpoint(tok, got.previous,
                                                 info_of(got, left));
           if (got.ok())
             promise.deliver(std::move(got.previous));
           else if (got.code == ec::fenced)
             promise.deliver(fenced_error(tok));
           else
             promise.deliver(to_error(got));
         });
  return promise;
}

void lease::stop(held& x) {
  if (x.stopped)
    return;
  if (auto why = x.window->why_lost(); why != ec::none) {
    // Too late for that: whoever watches the HOLD is told of the loss.
    if (x.hold)
      lose(x, why, ec::none, {});
    return;
  }
  x.stopped = true;
  post(this, drop{x.tok.number(), ec::none, ec::none, {}}).send(renewal_);
  if (x.hold)
    send_exit(x.hold, caf::error{});
}

void lease::lose(held& x, ec cause, ec also, const std::string& detail) {
  x.window->lose(cause);
  post(this, drop{x.tok.number(), cause, also, detail}).send(renewal_);
}

void lease::settle(const token& tok, std::string_view operation,
                   const backend::outcome& got, const departure& left,
                   caf::typed_response_promise<confirmation> promise) {
  if (got.code == ec::fenced)
    options_.observer->on_fenced(tok, operation);
  auto* entry = find(tok);
  auto answer = [got, tok, promise]() mutable {
    if (got.ok())
      promise.deliver(confirmation{got.expires_us});
    else if (got.code == ec::fenced)
      promise.deliver(fenced_error(tok));
    else
      promise.deliver(to_error(got));
  };
  if (entry == nullptr || entry->stopped) {
    answer();
    return;
  }
  if (got.ok()) {
    entry->window->extend(left.window + options_.ttl - *options_.margin);
  } else if (got.code == ec::fenced) {
    lose(*entry, ec::fenced, ec::none, got.detail);
  } else if (got.code == ec::lease_expired) {
    lose(*entry, ec::lease_window_exhausted, ec::lease_expired, got.detail);
  } else if (auto why = entry->window->why_lost(); why != ec::none) {
    // The timer that watches the window may come late, after a suspend say.
    lose(*entry, why, ec::none, got.detail);
  }
  if (!got.ok() && entry->window->why_lost() != ec::none && entry->hold)
    entry->after_down.push_back(answer);
  else
    answer();
}

// -- the store ----------------------------------------------------------------

void lease::submit(backend::operation op, on_outcome then) {
  if (outbox_.empty())
    post(this, flush{}).send(lease_impl{this});
  outbox_.push_back(std::move(op));
  outbox_then_.push_back(std::move(then));
}

void lease::flush_outbox() {
  if (outbox_.empty())
    return;
  store_request request;
  request.ops = std::exchange(outbox_, {});
  auto then = std::make_shared<std::vector<on_outcome>>(
    std::exchange(outbox_then_, {}));
  departure left;
  left.actor = clock().now();
  request.not_after = to_message(left.actor + options_.store_timeout);
  // Read last: windows count from before the request leaves.
  left.window = options_.clock->now();
  unanswered_requests_.emplace(then, left);
  post(this, std::move(request))
    .request(store_, options_.store_timeout + answer_slack)
    .then(
      [this, then, left](store_reply& reply) {
        unanswered_requests_.erase(then);
        for (std::size_t i = 0; i < then->size(); ++i)
          (*then)[i](reply.outcomes[i], left);
      },
      [this, then, left](const caf::error& err) {
        unanswered_requests_.erase(then);
        fail_all(*then, code_of(err), render(err), left);
      });
}

void lease::fail_all(std::vector<on_outcome>& fs, ec code, std::string detail,
                     const departure& left) {
  backend::outcome none;
  none.code = code;
  none.detail = std::move(detail);
  for (auto& f : fs) {
    auto copy = none;
    f(copy, left);
  }
}

void lease::answer_the_rest() {
  constexpr const char* why = "the lease actor ended";
  // Perhaps it ends because of an observer that throws, and would again.
  try {
    for (auto& [then, left] : std::exchange(unanswered_requests_, {}))
      fail_all(*then, ec::unknown_outcome, why, left);
    auto unsent = std::exchange(outbox_then_, {});
    fail_all(unsent, ec::cancelled, why, {window_time{}, clock().now()});
  } catch (const std::exception&) {
    // Then whoever is left waits until its own limit.
  }
}

result_info lease::info_of(const backend::outcome& got, const departure& left) {
  return {got.code, got.also, got.detail,
          duration_cast<duration>(clock().now() - left.actor)};
}

} // namespace internal

caf::expected<lease_actor> spawn_lease(caf::actor_system& sys,
                                       backend_actor store,
                                       lease_options options) {
  if (!store)
    return fail(ec::nil_backend, {}, ec::config_invalid);
  if (auto err = check(options))
    return err;
  return lease_actor{sys.spawn<internal::lease>(std::move(store),
                                                completed(std::move(options)))};
}

} // namespace leasehold
