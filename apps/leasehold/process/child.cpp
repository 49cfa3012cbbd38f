// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/child.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

using namespace std::chrono_literals;

namespace leasehold::process {

namespace {

// While more than this is left, the window is looked at again after half of
// it, so that the guard hears of renewals long before it would act.
constexpr auto closest_look = 10ms;

constexpr auto first_group_poll = 1ms;
constexpr auto slowest_group_poll = 50ms;

std::string_view describe(start_step step) {
  switch (step) {
    case start_step::directory:
      return "cannot enter directory";
    case start_step::execute:
      return "cannot execute";
    default:
      return "cannot prepare";
  }
}

} // namespace

int shell_exit_code(const child_exit& x) noexcept {
  switch (x.how) {
    case child_exit::kind::exited:
      return x.code;
    case child_exit::kind::signalled:
      return 128 + x.code;
    default:
      return x.step == start_step::execute && x.code == ENOENT ? 127 : 126;
  }
}

child::child(child_context& context, child_id id, prepared_child prepared)
  : context_(context), id_(id), spec_(std::move(prepared.spec)),
    events_(std::move(prepared.events)), prepared_(std::move(prepared)) {
  // nop
}

child::~child() = default;

void child::start() {
  if (prepared_.failure) {
    result_ = *prepared_.failure;
    finish();
    return;
  }
  auto& window = spec_.window;
  if (window && (!window->held() || window->until_end() <= spec_.kill_before)) {
    result_.code = ECANCELED;
    result_.detail = "not started: the lease window is over";
    finish();
    return;
  }
  auto process = launch(prepared_.plan, context_.helper);
  if (process.error != 0) {
    result_.code = process.error;
    result_.detail
      = fmt::format("cannot start a process: {}", std::strerror(process.error));
    finish();
    return;
  }
  pid_ = process.pid;
  pidfd_ = std::move(process.pidfd);
  status_ = std::move(process.status);
  // Ours would keep the pipes open for ever.
  prepared_.input.reset();
  prepared_.output.reset();
  prepared_.error_output.reset();
  pidfd_watch_ = context_.loop.add(pidfd_.get(), EPOLLIN,
                                   [this](auto) { on_leader_exit(); });
  if (!pidfd_watch_) {
    // Blind and blocking, but only for a child that is being killed.
    result_.code = errno;
    result_.detail = "cannot watch the process";
    ::kill(-pid_, SIGKILL);
    ::waitid(P_PID, static_cast<id_t>(pid_), nullptr, WEXITED | WNOWAIT);
    context_.helper.remove(pid_);
    ::waitpid(pid_, nullptr, 0);
    finish();
    return;
  }
  status_watch_ = context_.loop.add(status_.get(), EPOLLIN,
                                    [this](auto) { on_status(false); });
  for (auto& pipe : prepared_.pipes)
    pumps_.push_back(std::make_unique<output_pump>(
      context_.loop, context_.sink, std::move(pipe), line_prefix(spec_.label)));
  serve(std::move(prepared_.socket));
  check();
}

void child::stop() {
  if (!alive() || result_.stop_requested)
    return;
  result_.stop_requested = true;
  // A stopped process would not see the signal before it goes on.
  ::kill(-pid_, SIGCONT);
  ::kill(-pid_, spec_.stop_signal);
  grace_end_ = context_.loop.now() + spec_.grace;
  check();
}

void child::kill() {
  if (!alive())
    return;
  result_.killed = true;
  ::kill(-pid_, SIGKILL);
}

void child::signal(int number) {
  if (alive())
    ::kill(-pid_, number);
}

void child::check() {
  if (!alive() || result_.killed)
    return;
  auto now = context_.loop.now();
  auto next = window_time::max();
  if (grace_end_) {
    if (*grace_end_ <= now) {
      kill();
      return;
    }
    next = *grace_end_;
  }
  if (auto& window = spec_.window) {
    auto left = window->until_end();
    if (left <= spec_.kill_before) {
      kill();
      return;
    }
    if (!result_.stop_requested
        && (left <= spec_.stop_before || !window->held())) {
      stop(); // which comes back here
      return;
    }
    auto kill_at = now + left - spec_.kill_before;
    next = std::min(next, kill_at);
    if (!result_.stop_requested)
      next = std::min(next, now + left - spec_.stop_before);
    if (auto half = (kill_at - now) / 2; half > closest_look)
      next = std::min(next, now + half);
    // Later than we would do it, so that we come first if we can.
    auto guard_at = now + left - spec_.kill_before / 2;
    if (guard_at > told_guard_ + 1ms) {
      told_guard_ = guard_at;
      context_.helper.expire(pid_, guard_at);
    }
  }
  if (next != window_time::max())
    context_.loop.arm(timer_, next, [this] { check(); });
}

void child::serve(socket_file socket) {
  server_ = std::make_shared<checkpoint_server>(
    context_.loop, context_.codec, std::move(socket), context_.max_state_bytes,
    [this](child_request request, child_events::answer_function reply) {
      answer(std::move(request), std::move(reply));
    });
  server_->start();
}

void child::answer(child_request request, child_events::answer_function reply) {
  child_reply result;
  result.stop_requested = result_.stop_requested;
  if (request.op == checkpoint_op::window && spec_.window) {
    result.window_left
      = std::chrono::duration_cast<duration>(spec_.window->left());
    result.max_state_bytes = context_.max_state_bytes;
    result.stop_requested |= !spec_.window->held();
  } else if (events_.on_request) {
    events_.on_request(std::move(request), std::move(reply));
    return;
  } else {
    result.code = ec::unavailable;
  }
  reply(std::move(result));
}

// `ended`: the process is gone, so nothing more can come. A copy of the pipe
// that another thread's fork made may keep it open all the same.
void child::on_status(bool ended) {
  launch_failure failure{};
  auto n = ::read(status_.get(), &failure, sizeof(failure));
  if (n < 0 && (errno == EAGAIN || errno == EINTR) && !ended)
    return;
  status_watch_.reset();
  status_.reset();
  phase_ = phase::running;
  if (n == sizeof(failure)) {
    auto step = describe(failure.step);
    auto& subject = failure.step == start_step::directory ? spec_.directory
                                                          : spec_.argv.front();
    result_.code = failure.error;
    result_.step = failure.step;
    result_.detail
      = fmt::format("{} '{}': {}", step, subject, std::strerror(failure.error));
  } else if (events_.on_start) {
    events_.on_start(pid_);
  }
}

void child::on_leader_exit() {
  // The pidfd can be the first to tell.
  if (phase_ == phase::starting)
    on_status(true);
  siginfo_t info{};
  auto rc = ::waitid(P_PID, static_cast<id_t>(pid_), &info,
                     WEXITED | WNOWAIT | WNOHANG);
  if (rc == 0 && info.si_pid != pid_)
    return;
  phase_ = phase::dissolving;
  pidfd_watch_.reset();
  status_watch_.reset();
  timer_.reset();
  if (result_.detail.empty()) {
    if (rc == 0) {
      set_result(info);
    } else {
      result_.how = child_exit::kind::exited;
      result_.code = 255;
      result_.detail = "another part of the program took the exit status";
    }
  }
  // While the leader is not reaped its number belongs to this group; after
  // that only harmless signals may be sent to it.
  ::kill(-pid_, SIGKILL);
  auto since = context_.loop.now();
  context_.helper.remove(pid_);
  ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED);
  pidfd_.reset();
  server_.reset();
  await_group(since);
}

void child::set_result(const siginfo_t& info) {
  auto exited = info.si_code == CLD_EXITED;
  result_.how = exited ? child_exit::kind::exited : child_exit::kind::signalled;
  result_.code = info.si_status;
  if (exited) {
    // Ours came too late, then.
    result_.killed = false;
  } else if (info.si_status == SIGKILL && spec_.window
             && spec_.window->until_end() <= spec_.kill_before) {
    // The guard does it when we cannot.
    result_.killed = true;
  }
}

void child::await_group(window_time since) {
  // As process 1 of a container, we inherit the members.
  siginfo_t info{};
  do
    info.si_pid = 0;
  while (::waitid(P_PGID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG)
           == 0
         && info.si_pid != 0);
  if ((::kill(-pid_, 0) != 0 && errno == ESRCH)
      || !context_.processes.has_living_member(pid_, since)) {
    finish();
    return;
  }
  poll_pause_ = std::clamp<window_time>(poll_pause_ * 2, first_group_poll,
                                        slowest_group_poll);
  auto now = context_.loop.now();
  context_.loop.arm(timer_, now + poll_pause_,
                    [this, now] { await_group(now); });
}

void child::finish() {
  phase_ = phase::gone;
  server_.reset();
  for (auto& pump : pumps_) {
    pump->drain();
    if (!pump->done())
      context_.keep_pump(std::move(pump));
  }
  pumps_.clear();
  prepared_ = {};
  if (auto tell = std::exchange(events_.on_exit, nullptr))
    tell(result_);
  context_.on_gone(id_);
}

} // namespace leasehold::process
