// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/alarms.hpp"
#include "leasehold/lease_options.hpp"
#include "leasehold/messages.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace leasehold {

namespace internal {

using lease_impl = typed_actor<
  caf::result<grant>(acquire_request), caf::result<void>(cancel_acquire),
  caf::result<confirmation>(keep_request), caf::result<void>(stop_request),
  caf::result<prior>(read_request),
  caf::result<confirmation>(checkpoint_request),
  caf::result<confirmation>(renew_request),
  caf::result<confirmation>(release_request),
  caf::result<confirmation>(forget_request),
  // From RENEWAL.
  caf::result<void>(lost),
  // To itself: send what has gathered; look who is due.
  caf::result<void>(flush), caf::result<void>(wake)>;

/// See lease_actor. Turns each call into a store operation, gathers the
/// operations of one mailbox run into one request, and keeps the books on what
/// this process holds.
class lease : public lease_impl::base {
public:
  lease(caf::actor_config& cfg, backend_actor store, lease_options options);

  const char* name() const override;

protected:
  behavior_type make_behavior() override;

  void on_exit() override;

private:
  using time_point = caf::actor_clock::time_point;

  /// When an operation left, on both clocks.
  struct departure {
    window_time window;
    time_point actor;
  };

  using on_outcome = std::function<void(backend::outcome&, const departure&)>;

  /// What this process knows of a token that it was granted. Stays after a
  /// loss, so that a late call with the token is refused here, until the token
  /// is released or forgotten or its work ID is granted anew.
  struct held {
    token tok;
    lease_window_ptr window;
    /// Null once it ended.
    hold_actor hold;
    bool managed = true;
    /// Managed renewal was ended on purpose: windows no longer decide.
    bool stopped = false;
    /// Of the last checkpoint.
    std::int64_t sequence = 0;
    /// A release with this mode got no answer.
    exit_mode unanswered_release = exit_mode::none;
    /// Answers that wait until the HOLD is down, so that a worker hears of
    /// its end first.
    std::vector<std::function<void()>> after_down;
  };

  /// A call to acquire that is not answered yet.
  struct acquisition {
    acquire_request request;
    caf::typed_response_promise<grant> promise;
    std::optional<time_point> deadline;
    time_point next_poll;
    bool in_flight = false;
    /// It was cancelled, but for the attempt on its way.
    bool last = false;
  };

  // -- acquire ----------------------------------------------------------------

  caf::result<grant> start(acquire_request& request);

  void cancel(const cancel_acquire& request);

  void attempt(std::uint64_t id);

  void on_attempt(std::uint64_t id, const std::string& work_id,
                  std::int64_t request, backend::outcome& got,
                  const departure& left);

  /// Puts a won lease into the books; nothing if its time is over already.
  std::optional<grant> install(const acquire_request& request,
                               backend::outcome& got, const departure& left);

  /// Gives back a grant that nobody waits for.
  void give_back(const token& tok, exit_mode found, std::int64_t request);

  void refuse(std::uint64_t id, caf::error why);

  /// Removes an acquisition; the next waiter in its queue, if any, takes over.
  acquisition take(std::uint64_t id);

  /// Somebody in this process released: the first waiter looks at once.
  void hint(const std::string& work_id);

  bool is_first(std::uint64_t id, const acquisition& x);

  /// When to look again at a lease that is held for another `left`.
  time_point next_look(const acquire_request& request, duration left);

  void arm(std::uint64_t id, const acquisition& x);

  void look();

  // -- RENEWAL ----------------------------------------------------------------

  void spawn_renewal();

  /// It ended by an error: another one takes over all that is held.
  void replace_renewal();

  // -- operations with a token ------------------------------------------------

  held* find(const token& tok);

  /// Takes an entry out of the books; whoever still waits is answered.
  void erase(const std::string& work_id);

  /// Why a call with `tok` must not reach the store; no error if it may.
  caf::error dead(const token& tok);

  /// Answers with `why`, after the HOLD is down.
  caf::result<confirmation> refuse(const token& tok, caf::error why);

  caf::result<confirmation> checkpoint(checkpoint_request& request);

  caf::result<confirmation> renew(renew_request& request);

  caf::result<confirmation> release(release_request& request);

  caf::result<confirmation> forget(forget_request& request);

  caf::result<prior> read(read_request& request);

  /// Ends managed renewal and the HOLD, normally. A token that was lost before
  /// stays dead.
  void stop(held& x);

  /// Marks the window, and has the RENEWAL end the HOLD: the lease is lost.
  void lose(held& x, ec cause, ec also, const std::string& detail);

  /// Applies what an answer says about the lease, then answers the caller.
  void settle(const token& tok, std::string_view operation,
              const backend::outcome& got, const departure& left,
              caf::typed_response_promise<confirmation> promise);

  // -- the store --------------------------------------------------------------

  void submit(backend::operation op, on_outcome then);

  void flush_outbox();

  using on_outcomes = std::shared_ptr<std::vector<on_outcome>>;

  /// Tells each of `fs` that its operation ended with `code`.
  void fail_all(std::vector<on_outcome>& fs, ec code, std::string detail,
                const departure& left);

  /// This actor ends: nobody shall wait for what it would have heard.
  void answer_the_rest();

  result_info info_of(const backend::outcome& got, const departure& left);

  void end_holds(const caf::error& reason);

  backend_actor store_;
  lease_options options_;
  renewal_actor renewal_;
  watches watches_;
  std::unordered_map<std::string, held> held_;
  std::unordered_map<std::uint64_t, acquisition> acquisitions_;
  /// Waiting acquisitions by work ID, in the order they came.
  std::unordered_map<std::string, std::vector<std::uint64_t>> queues_;
  /// Acquisitions that may be cancelled, by ticket.
  std::unordered_multimap<std::uint64_t, std::uint64_t> tickets_;
  /// When polls that may meet will meet.
  std::set<time_point> meetings_;
  /// Requests to acquire whose outcome is unknown: the next one for the same
  /// work ID repeats it, and so finds a grant that was never heard of.
  std::unordered_map<std::string, std::int64_t> unanswered_;
  std::uint64_t last_id_ = 0;
  alarms<std::uint64_t> alarms_;
  std::vector<backend::operation> outbox_;
  std::vector<on_outcome> outbox_then_;
  /// Of the requests on their way.
  std::map<on_outcomes, departure> unanswered_requests_;
};

} // namespace internal

/// Spawns a LEASE and its RENEWAL over `store`; calls nothing yet. Fails with
/// config_invalid and a code of its own (nil_backend, ttl_invalid,
/// holder_invalid). Any number of actors may share one LEASE.
caf::expected<lease_actor>
spawn_lease(caf::actor_system& sys, backend_actor store, lease_options options);

} // namespace leasehold
