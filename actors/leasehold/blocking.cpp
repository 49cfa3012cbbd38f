// SPDX-License-Identifier: Apache-2.0
#include "leasehold/blocking.hpp"

#include "leasehold/backend_actor.hpp"
#include "leasehold/leader.hpp"
#include "leasehold/lease_actor.hpp"
#include "leasehold/pool.hpp"
#include "leasehold/run_end.hpp"
#include "leasehold/runner.hpp"
#include "leasehold/slot.hpp"
#include "leasehold/vacuum.hpp"
#include "leasehold/work.hpp"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>

namespace leasehold::blocking {

namespace {

namespace ours = leasehold::internal;

using std::chrono::duration_cast;

// Beyond the store timeout: a LEASE answers by itself within a second of it.
constexpr auto answer_slack = std::chrono::seconds{2};

constexpr auto sweep_timeout = std::chrono::minutes{1};

// What spawn_backends opens besides those for ordinary work.
constexpr std::size_t extra_sessions = 2;

failure to_failure(const caf::error& err) {
  if (!err)
    return {};
  auto detail = detail_of(err);
  if (detail.empty())
    detail = error_as<ec>(err) ? std::string{explain(code_of(err))}
                               : leasehold::render(err);
  return {code_of(err), also_of(err), std::move(detail)};
}

failure to_failure(ours::run_report got) {
  if (got.detail.empty())
    got.detail = explain(got.code);
  return {got.code, got.also, std::move(got.detail)};
}

/// The loss alone: the work itself may have reported something else.
failure why_lost(const ours::run_report& got) {
  return {got.lost, got.lost == got.code ? got.also : ec::none,
          got.detail.empty() ? std::string{explain(got.lost)} : got.detail};
}

failure cancelled(std::string detail) {
  return {ec::cancelled, ec::none, std::move(detail)};
}

failure client_is_gone() {
  return cancelled("the client was destroyed");
}

failure no_lease() {
  return {ec::invalid_argument, ec::none, "there is no lease in this object"};
}

leasehold::work_result to_real(work_result x) {
  return {x.code, std::move(x.detail), std::move(x.state)};
}

/// For a lease that was granted, but not used: its exit must read as before.
leasehold::work_result untouched(const prior& found) {
  switch (ours::unused_exit(found.exit)) {
    case exit_mode::finished:
      return leasehold::succeeded();
    case exit_mode::retired:
      return leasehold::retired();
    default:
      return {ec::cancelled, "stopped before it began", std::nullopt};
  }
}

/// Where a thread that blocks meets the actors that work for it. Shared with
/// actors that may outlive the call.
class meeting {
public:
  // -- on the worker's thread -------------------------------------------------

  /// Hands `job` to the thread that waits; returns when it has used it.
  leasehold::work_result host(leasehold::work_context& job) {
    std::unique_lock lock{mtx_};
    if (!left_) {
      job_ = &job;
      changed_.notify_all();
      changed_.wait(lock, [this] { return left_ || done_; });
    }
    return done_ ? std::move(*done_) : untouched(job.found());
  }

  // -- on an actor's thread ---------------------------------------------------

  void answer(ours::run_report got) {
    std::lock_guard guard{mtx_};
    answer_ = std::move(got);
    changed_.notify_all();
  }

  // -- on the caller's thread -------------------------------------------------

  /// Waits for a job. Null if there was an answer instead, or a stop: then no
  /// job is taken any more.
  leasehold::work_context* wait_for_job(const std::stop_token& stop) {
    std::unique_lock lock{mtx_};
    changed_.wait(lock, stop, [this] { return job_ != nullptr || answer_; });
    if (job_ == nullptr || stop.stop_requested()) {
      left_ = true;
      changed_.notify_all();
      return nullptr;
    }
    return job_;
  }

  /// No job is used any more.
  void leave() {
    std::lock_guard guard{mtx_};
    left_ = true;
    changed_.notify_all();
  }

  void finish(leasehold::work_result got) {
    std::lock_guard guard{mtx_};
    done_ = std::move(got);
    changed_.notify_all();
  }

  ours::run_report wait_for_answer() {
    std::unique_lock lock{mtx_};
    changed_.wait(lock, [this] { return answer_.has_value(); });
    return std::move(*answer_);
  }

  std::optional<ours::run_report> answer_if_any() {
    std::lock_guard guard{mtx_};
    return std::move(answer_);
  }

  void pause(duration x, const std::stop_token& stop) {
    std::unique_lock lock{mtx_};
    changed_.wait_for(lock, stop, x, [] { return false; });
  }

private:
  std::mutex mtx_;
  std::condition_variable_any changed_;
  leasehold::work_context* job_ = nullptr;
  bool left_ = false;
  std::optional<leasehold::work_result> done_;
  std::optional<ours::run_report> answer_;
};

/// Counts the calls of a pool's function, so that run_pool does not return
/// while one of them may still look at what its caller owns.
class call_counter {
public:
  bool enter() {
    std::lock_guard guard{mtx_};
    if (closed_)
      return false;
    ++running_;
    return true;
  }

  void leave() {
    std::lock_guard guard{mtx_};
    --running_;
    left_.notify_all();
  }

  void close_and_wait() {
    std::unique_lock lock{mtx_};
    closed_ = true;
    left_.wait(lock, [this] { return running_ == 0; });
  }

private:
  std::mutex mtx_;
  std::condition_variable left_;
  int running_ = 0;
  bool closed_ = false;
};

template <class F>
class at_exit {
public:
  explicit at_exit(F fn) : fn_(std::move(fn)) {
    // nop
  }

  at_exit(const at_exit&) = delete;
  at_exit& operator=(const at_exit&) = delete;

  ~at_exit() {
    fn_();
  }

private:
  F fn_;
};

/// Stands in each function that a thread of the user enters and that uses
/// actors: the thread may outlive the client.
class visit {
public:
  visit() = default;
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;

  ~visit() {
    forget_system();
  }
};

/// What becomes of a lease, for those who wait for it. Outlives the held_lease
/// in the HOLD's hands.
class fate {
public:
  explicit fate(std::function<void(const failure&)> on_lost)
    : on_lost_(std::move(on_lost)) {
    // nop
  }

  /// The HOLD ended.
  void end(const caf::error& reason) {
    std::function<void(const failure&)> tell;
    {
      std::lock_guard guard{mtx_};
      ended_ = true;
      auto code = code_of(reason);
      if (ours::is_loss(code) || code == ec::lease_expired) {
        why_ = to_failure(reason);
        tell = std::exchange(on_lost_, nullptr);
        telling_ = static_cast<bool>(tell);
      }
      changed_.notify_all();
    }
    if (!tell)
      return;
    try {
      tell(why_);
    } catch (...) {
      // It promised not to; a lease of others must not suffer.
    }
    tell = nullptr;
    std::lock_guard guard{mtx_};
    telling_ = false;
    changed_.notify_all();
  }

  /// From here on nobody is told.
  void forget_listener() {
    std::unique_lock lock{mtx_};
    on_lost_ = nullptr;
    changed_.wait(lock, [this] { return !telling_; });
  }

  failure why() {
    std::lock_guard guard{mtx_};
    return why_;
  }

  bool ended() {
    std::lock_guard guard{mtx_};
    return ended_;
  }

  /// Waits until `done`, or for `limit`.
  template <class Predicate>
  void wait(const std::stop_token& stop, duration limit, Predicate done) {
    std::unique_lock lock{mtx_};
    changed_.wait_for(lock, stop, limit, done);
  }

  /// Waits until it ended or `done`, or for `limit`.
  template <class Predicate>
  void wait_end(const std::stop_token& stop, duration limit, Predicate done) {
    wait(stop, limit, [&] { return ended_ || done(); });
  }

  /// Something that `done` looks at has changed.
  void wake() {
    std::lock_guard guard{mtx_};
    changed_.notify_all();
  }

private:
  std::mutex mtx_;
  std::condition_variable_any changed_;
  std::function<void(const failure&)> on_lost_;
  failure why_;
  bool ended_ = false;
  bool telling_ = false;
};

} // namespace

// -- small things -------------------------------------------------------------

std::string render(const failure& x) {
  return leasehold::render(fail(x.code, x.detail, x.also));
}

error::error(failure why)
  : std::runtime_error(blocking::render(why)),
    why_(std::make_shared<const failure>(std::move(why))) {
  // nop
}

work_result succeeded(std::optional<std::string> state) {
  return {ec::none, {}, std::move(state)};
}

work_result retired(std::optional<std::string> state) {
  return {ec::retire, {}, std::move(state)};
}

work_result failed(std::string detail, std::optional<std::string> state) {
  return {ec::work_failed, std::move(detail), std::move(state)};
}

work_result failed_for_good(std::string detail,
                            std::optional<std::string> state) {
  return {ec::work_permanent, std::move(detail), std::move(state)};
}

work_result stopped(std::optional<std::string> state) {
  return {ec::cancelled, "the work was asked to stop", std::move(state)};
}

const token& work_context::token() const noexcept {
  return real_.token();
}

const prior& work_context::found() const noexcept {
  return real_.found();
}

bool work_context::stop_requested() const noexcept {
  return real_.stop_requested();
}

duration work_context::window_left() const noexcept {
  return real_.window_left();
}

bool work_context::wait_for(duration pause) {
  return real_.wait_for(pause);
}

result<void> work_context::checkpoint(std::optional<std::string> state) {
  return to_failure(real_.checkpoint(std::move(state)));
}

// -- client::impl -------------------------------------------------------------

/// Everything that leases, and calls on their way, share. Destroyed by whoever
/// lets go of it last, which is never one of its own threads.
class client::impl {
public:
  /// One session, or as many as spawn_backends wants.
  impl(lease_options options, std::vector<backend::store_ptr> sessions,
       vacuum_observer_ptr sweep_observer)
    : random(options.random), sweep_observer_(std::move(sweep_observer)),
      answer_limit_(std::min(options.store_timeout, max_duration)
                    + answer_slack),
      sys_(cfg_) {
    auto next = [&] {
      auto result = std::move(sessions.back());
      sessions.pop_back();
      return result;
    };
    store_ = sessions.size() > 1
               ? spawn_backends(sys_, next, sessions.size() - extra_sessions)
               : spawn_backend(sys_, next());
    lease_ = *spawn_lease(sys_, store_, std::move(options));
  }

  ~impl() {
    end();
  }

  /// Leases lapse from here on, and all calls are answered.
  void end() {
    visit here;
    closed_.store(true, std::memory_order_release);
    caf::anon_send_exit(lease_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(store_, caf::exit_reason::user_shutdown);
  }

  bool closed() const noexcept {
    return closed_.load(std::memory_order_acquire);
  }

  caf::actor_system& system() {
    return sys_;
  }

  const lease_actor& lease() const {
    return lease_;
  }

  const backend_actor& store() const {
    return store_;
  }

  const vacuum_observer_ptr& sweep_observer() const {
    return sweep_observer_;
  }

  /// One request, one answer.
  template <class Answer, class Request>
  result<Answer> ask(Request request) {
    visit here;
    caf::scoped_actor self{sys_};
    std::optional<result<Answer>> got;
    post(self, std::move(request))
      .request(lease_, duration_cast<caf::timespan>(answer_limit_))
      .receive([&](Answer& x) { got.emplace(std::move(x)); },
               [&](const caf::error& err) { got.emplace(explained(err)); });
    return std::move(*got);
  }

  template <class Request>
  result<void> confirm(Request request) {
    return ask<confirmation>(std::move(request)).why();
  }

  /// Actors that end with the client do not always get to say so.
  failure explained(const caf::error& err) const {
    return closed() ? client_is_gone() : to_failure(err);
  }

  std::uint64_t new_ticket() {
    return random->next() | 1;
  }

  using on_grant = std::function<void(const token&, const prior&)>;

  /// One run, its work on this thread.
  ours::run_report run(run_work call, slot_timing timing,
                       const work_function& work, const std::stop_token& stop,
                       const on_grant& granted) {
    ours::run_report cancelled_report;
    cancelled_report.code = ec::cancelled;
    cancelled_report.detail = "stopped before the work began";
    if (stop.stop_requested())
      return cancelled_report;
    visit here;
    auto met = std::make_shared<meeting>();
    auto options = ours::single_run_options(
      lease_, run_function([met](leasehold::work_context& job) {
        return met->host(job);
      }),
      timing, random);
    ours::runner_impl runner{sys_.spawn<ours::runner>(std::move(options))};
    // Ends the run, too, if it is still going on.
    at_exit end_runner{[runner] {
      caf::anon_send_exit(runner, caf::exit_reason::user_shutdown);
    }};
    sys_.spawn([runner, call, met](caf::event_based_actor* self) {
      // No timeout: work may take days, and a RUNNER answers when it ends.
      post(self, ours::run_once{call})
        .request(runner, caf::infinite)
        .then([met](ours::run_report& got) { met->answer(std::move(got)); },
              [met](const caf::error& err) {
                ours::run_report none;
                none.code = code_of(err);
                none.detail = leasehold::render(err);
                met->answer(std::move(none));
              });
    });
    auto* job = met->wait_for_job(stop);
    if (job == nullptr)
      return met->answer_if_any().value_or(cancelled_report);
    at_exit leave{[met] { met->leave(); }};
    auto tok = job->token();
    std::exception_ptr thrown;
    {
      std::stop_callback on_stop{stop, [runner] {
                                   visit here_too;
                                   post_anon(runner, stop_runs{});
                                 }};
      work_result got;
      try {
        if (granted)
          granted(tok, job->found());
        work_context context{*job};
        got = work(context);
      } catch (...) {
        thrown = std::current_exception();
        got.code = ec::work_threw;
      }
      met->finish(to_real(std::move(got)));
    }
    auto report = met->wait_for_answer();
    if (thrown) {
      // The SLOT has asked for it; whoever sees the exception may rely on it.
      (void)stop_renewal(tok);
      std::rethrow_exception(thrown);
    }
    return report;
  }

  void pause(duration x, const std::stop_token& stop) {
    if (x > duration::zero())
      meeting{}.pause(x, stop);
  }

  /// Returns when the LEASE has done it.
  failure stop_renewal(const token& tok) {
    visit here;
    caf::scoped_actor self{sys_};
    failure why;
    post(self, stop_request{tok})
      .request(lease_, duration_cast<caf::timespan>(answer_limit_))
      .receive([] {}, [&](const caf::error& err) { why = to_failure(err); });
    return why;
  }

  const random_source_ptr random;

private:
  /// Few threads: what runs on them never waits for anything.
  struct config : config_base<caf::id_block::leasehold> {
    config() {
      if (auto err = apply(
            {"caf.scheduler.policy=sharing", "caf.scheduler.max-threads=2"}))
        throw blocking::error{to_failure(err)};
    }
  };

  vacuum_observer_ptr sweep_observer_;
  duration answer_limit_;
  std::atomic<bool> closed_{false};
  config cfg_;
  caf::actor_system sys_;
  backend_actor store_;
  lease_actor lease_;
};

// -- held_lease ---------------------------------------------------------------

class held_lease::impl {
public:
  impl(std::shared_ptr<client::impl> home, grant won, acquire_options& options)
    : tok(std::move(won.tok)), found(std::move(won.found)),
      window(std::move(won.window)), stop(std::move(options.stop)),
      outcome(std::make_shared<fate>(std::move(options.on_lost))), home_(home) {
    // Runs at once if the HOLD has ended already.
    won.hold->attach_functor(
      [out = outcome](const caf::error& reason) { out->end(reason); });
  }

  ~impl() {
    outcome->forget_listener();
    visit here;
    // A client that is gone has stopped it.
    if (auto home = home_.lock())
      post_anon(home->lease(), stop_request{tok});
  }

  bool held() const noexcept {
    return !given_up.load(std::memory_order_acquire) && window->held();
  }

  /// Null if the client is gone.
  std::shared_ptr<client::impl> home() const {
    auto result = home_.lock();
    return result && !result->closed() ? result : nullptr;
  }

  template <class Request>
  result<void> confirm(Request request) {
    if (auto to = home())
      return to->confirm(std::move(request));
    return client_is_gone();
  }

  const leasehold::token tok;
  const prior found;
  const lease_window_ptr window;
  const std::stop_token stop;
  const std::shared_ptr<fate> outcome;

  /// It was released or forgotten, or that was tried.
  std::atomic<bool> given_up{false};

private:
  std::weak_ptr<client::impl> home_;
};

held_lease::held_lease() noexcept = default;

held_lease::held_lease(held_lease&&) noexcept = default;

held_lease& held_lease::operator=(held_lease&&) noexcept = default;

held_lease::held_lease(std::unique_ptr<impl> ptr) noexcept
  : impl_(std::move(ptr)) {
  // nop
}

held_lease::~held_lease() = default;

const token& held_lease::token() const noexcept {
  static const leasehold::token none;
  return impl_ ? impl_->tok : none;
}

const prior& held_lease::found() const noexcept {
  static const prior none;
  return impl_ ? impl_->found : none;
}

bool held_lease::held() const noexcept {
  return impl_ && impl_->held();
}

duration held_lease::window_left() const noexcept {
  return held() ? duration_cast<duration>(impl_->window->left())
                : duration::zero();
}

bool held_lease::stop_requested() const noexcept {
  return !held() || impl_->stop.stop_requested();
}

failure held_lease::why_lost() const {
  if (!impl_)
    return {};
  if (auto why = impl_->outcome->why(); why.code != ec::none)
    return why;
  // Ended on purpose: that the window has closed since then is no loss.
  if (impl_->given_up || impl_->outcome->ended())
    return {};
  auto code = impl_->window->why_lost();
  if (code == ec::none)
    return {};
  return {code, ec::none, std::string{explain(code)}};
}

bool held_lease::wait_for(duration pause) const {
  if (!impl_)
    return false;
  auto over = [this] { return stop_requested(); };
  // Nobody signals the end of the window: it is a point in time, and it moves
  // with each renewal.
  while (pause > duration::zero() && !over()) {
    auto part = std::min(pause, window_left());
    impl_->outcome->wait(impl_->stop, part, over);
    pause -= part;
  }
  return !over();
}

failure held_lease::wait_lost(std::stop_token stop) const {
  if (!impl_)
    return {};
  auto over = [this] { return !held(); };
  while (!stop.stop_requested() && !over() && !impl_->outcome->ended())
    impl_->outcome->wait_end(stop, window_left(), over);
  return why_lost();
}

result<prior> held_lease::read() const {
  if (!impl_)
    return no_lease();
  if (auto to = impl_->home())
    return to->ask<prior>(read_request{impl_->tok});
  return client_is_gone();
}

result<void> held_lease::checkpoint(std::optional<std::string> state) {
  if (!impl_)
    return no_lease();
  return impl_->confirm(checkpoint_request{impl_->tok, std::move(state)});
}

result<void> held_lease::renew() {
  return impl_ ? impl_->confirm(renew_request{impl_->tok}) : no_lease();
}

result<void> held_lease::keep() {
  return impl_ ? impl_->confirm(keep_request{impl_->tok}) : no_lease();
}

void held_lease::stop_renewal() {
  if (!impl_)
    return;
  if (auto to = impl_->home())
    (void)to->stop_renewal(impl_->tok);
}

result<void> held_lease::release(exit_mode mode) {
  if (!impl_)
    return no_lease();
  if (is_declarable(mode)) {
    impl_->given_up = true;
    impl_->outcome->wake();
  }
  return impl_->confirm(release_request{impl_->tok, mode});
}

result<void> held_lease::forget() {
  if (!impl_)
    return no_lease();
  impl_->given_up = true;
  impl_->outcome->wake();
  return impl_->confirm(forget_request{impl_->tok});
}

// -- client -------------------------------------------------------------------

namespace {

lease_options to_lease_options(client_options& x) {
  lease_options result;
  result.holder_id = std::move(x.holder_id);
  result.ttl = x.ttl;
  result.renew = x.renew;
  result.margin = x.margin;
  result.warn_below = x.warn_below;
  result.retry = x.retry;
  result.store_timeout = x.store_timeout;
  result.max_state_bytes = x.max_state_bytes;
  result.observer = std::move(x.observer);
  result.clock = x.clock != nullptr ? x.clock : &system_window_clock();
  result.random = x.random ? std::move(x.random) : system_random();
  return result;
}

/// What `run` and `elect` have in common.
template <class Options>
run_work to_call(std::string_view work_id, const Options& options) {
  run_work result;
  result.work_id = work_id;
  result.wait = options.wait;
  result.poll = options.poll;
  result.timeout = options.timeout;
  return result;
}

template <class Options>
slot_timing to_timing(const Options& options) {
  slot_timing result;
  result.cleanup = options.cleanup;
  result.grace = options.grace;
  return result;
}

result<run_outcome> to_result(ours::run_report got) {
  if (got.code != ec::none)
    return to_failure(std::move(got));
  return run_outcome{got.recorded, got.tok.number()};
}

} // namespace

client::client(const store_factory& open, client_options options) {
  auto real = to_lease_options(options);
  failure no_store{ec::nil_backend, ec::config_invalid,
                   std::string{explain(ec::nil_backend)}};
  if (!open)
    throw error{no_store};
  if (auto err = check(real))
    throw error{to_failure(err)};
  std::vector<backend::store_ptr> sessions;
  auto count = options.sessions > 1 ? options.sessions + extra_sessions : 1;
  for (std::size_t i = 0; i < count; ++i) {
    sessions.push_back(open());
    if (!sessions.back())
      throw error{no_store};
  }
  auto start = [&] {
    return std::make_shared<impl>(std::move(real), std::move(sessions),
                                  std::move(options.sweep_observer));
  };
  // On a thread that ends with it: CAF 0.17 ties an actor system to the thread
  // that made it, and the end of the one waits for the end of the other.
  impl_ = std::async(std::launch::async, start).get();
}

client::client(client&&) noexcept = default;

client& client::operator=(client&& other) noexcept {
  if (impl_ && impl_ != other.impl_)
    impl_->end();
  impl_ = std::move(other.impl_);
  return *this;
}

client::~client() {
  // Calls of other threads may still share it.
  if (impl_)
    impl_->end();
}

result<held_lease> client::acquire(std::string_view work_id,
                                   acquire_options options) {
  auto home = impl_;
  if (options.stop.stop_requested())
    return cancelled("stopped before it began");
  acquire_request request;
  request.work_id = work_id;
  request.wait = options.wait;
  request.poll = options.poll;
  request.timeout = options.timeout;
  request.managed = options.managed;
  request.ticket = home->new_ticket();
  auto ticket = request.ticket;
  visit here;
  caf::scoped_actor self{home->system()};
  // No timeout: a LEASE answers each call, also when it ends, and one that
  // waits for a lease may wait for days.
  auto answer
    = post(self, std::move(request)).request(home->lease(), caf::infinite);
  // Behind the request, or it would find nothing to cancel.
  std::stop_callback on_stop{
    options.stop, [&] {
      visit here_too;
      post_anon(home->lease(), cancel_acquire{ticket, false});
    }};
  std::optional<grant> won;
  failure why;
  std::move(answer).receive(
    [&](grant& x) { won = std::move(x); },
    [&](const caf::error& err) { why = home->explained(err); });
  if (!won)
    return why;
  return held_lease{
    std::make_unique<held_lease::impl>(home, std::move(*won), options)};
}

result<prior> client::read(const token& tok) {
  auto home = impl_;
  return home->ask<prior>(read_request{tok});
}

result<run_outcome> client::run(std::string_view work_id,
                                const work_function& work,
                                run_options options) {
  auto home = impl_;
  if (!work)
    return failure{ec::worker_work_fn_required, ec::config_invalid,
                   "there is no function to run"};
  return to_result(home->run(to_call(work_id, options), to_timing(options),
                             work, options.stop, nullptr));
}

result<run_outcome> client::elect(std::string_view name,
                                  const work_function& work,
                                  elect_options options) {
  auto home = impl_;
  if (!work)
    return failure{ec::leader_fn_required, ec::config_invalid,
                   "there is no function for the leader"};
  auto got = home->run(to_call(name, options), to_timing(options), work,
                       options.stop, options.on_elected);
  if (got.lost != ec::none) {
    if (options.on_lost)
      options.on_lost(got.tok, why_lost(got));
  } else if (got.recorded == exit_mode::finished
             || got.recorded == exit_mode::retired) {
    if (options.on_relinquished)
      options.on_relinquished(got.tok, got.recorded);
  }
  leader_options pauses;
  if (options.idle > duration::zero())
    pauses.idle = std::min(options.idle, max_duration);
  pauses.backoff = std::clamp(options.backoff, duration::zero(), max_duration);
  home->pause(ours::pause_before(got, pauses, home->random->fraction()),
              options.stop);
  return to_result(std::move(got));
}

result<pool_outcome> client::run_pool(std::vector<std::string> work_ids,
                                      work_function work,
                                      pool_options options) {
  auto home = impl_;
  auto calls = std::make_shared<call_counter>();
  leasehold::pool_options real;
  real.lease = home->lease();
  real.work_ids = std::move(work_ids);
  if (work)
    real.work = run_function([calls, work](leasehold::work_context& job) {
      if (!calls->enter())
        return untouched(job.found());
      at_exit leave{[&] { calls->leave(); }};
      work_context context{job};
      return to_real(work(context));
    });
  real.timing = {options.idle, options.rerun, options.backoff, options.cleanup,
                 options.grace};
  real.max_held = options.max_held;
  real.observer = std::move(options.observer);
  real.random = home->random;
  if (auto err = check(real))
    return to_failure(err);
  if (options.stop.stop_requested())
    return pool_outcome{};
  visit here;
  auto pool = *spawn_pool(home->system(), std::move(real));
  at_exit end_pool{[&] {
    caf::anon_send_exit(pool, caf::exit_reason::user_shutdown);
    calls->close_and_wait();
  }};
  caf::scoped_actor self{home->system()};
  // No timeout: see RUNNER.
  auto answer = post(self, leasehold::run_pool{}).request(pool, caf::infinite);
  // Behind the request, or it would find nothing to stop.
  std::stop_callback on_stop{options.stop, [&] {
                               visit here_too;
                               post_anon(pool, stop_pool{});
                             }};
  result<pool_outcome> got{failure{}};
  std::move(answer).receive(
    [&](const pool_result& x) {
      got = pool_outcome{x.retired, x.dead};
    },
    [&](const caf::error& err) { got = home->explained(err); });
  return got;
}

result<std::uint64_t> client::sweep(duration retention, bool include_expired) {
  auto home = impl_;
  vacuum_options options;
  options.store = home->store();
  options.retention = retention;
  options.include_expired = include_expired;
  options.timeout = sweep_timeout;
  options.observer = home->sweep_observer();
  visit here;
  auto vacuum = spawn_vacuum(home->system(), std::move(options));
  if (!vacuum)
    return to_failure(vacuum.error());
  caf::scoped_actor self{home->system()};
  result<std::uint64_t> got{failure{}};
  // It has a timeout itself.
  post(self, sweep_now{})
    .request(*vacuum, caf::infinite)
    .receive([&](const swept& x) { got = x.deleted; },
             [&](const caf::error& err) { got = home->explained(err); });
  caf::anon_send_exit(*vacuum, caf::exit_reason::user_shutdown);
  return got;
}

} // namespace leasehold::blocking
