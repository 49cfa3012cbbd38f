// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/supervisor.hpp"

#include "leasehold/process/blocked_signals.hpp"
#include "leasehold/process/child.hpp"

#include <sys/epoll.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <thread>

using namespace std::chrono_literals;

namespace leasehold::process {

namespace {

// Only while records for the guard wait, which takes a guard that is stopped.
constexpr auto guard_retry = 100ms;

// Whoever started us may have left SIGCHLD ignored, and then the kernel throws
// the exit statuses of our children away.
void keep_exit_statuses() {
  struct sigaction action {};

  ::sigaction(SIGCHLD, nullptr, &action);
  if (action.sa_handler == SIG_IGN)
    std::signal(SIGCHLD, SIG_DFL);
}

} // namespace

class supervisor::impl {
public:
  impl(guard& helper, const runtime_folder& folder, supervisor_options options)
    : options_(std::move(options)), folder_(folder), helper_(helper),
      sink_(loop_, options_.output_fd, options_.output_buffer_bytes,
            [this](int code) {
              if (options_.on_output_lost)
                options_.on_output_lost(code);
            }),
      context_{loop_,
               sink_,
               helper_,
               codec_,
               processes_,
               options_.max_state_bytes,
               [this](auto pump) { keep(std::move(pump)); },
               [this](child_id id) { on_gone(id); }} {
    watch_guard();
    keep_exit_statuses();
    blocked_signals scope;
    thread_ = std::thread{[this] { loop_.run(); }};
  }

  ~impl() {
    inbox().post([this] { shut_down(); });
    thread_.join();
    codec_.stop();
    inbox().close();
  }

  child_id start(child_spec spec, child_events events) {
    auto id = child_id{++last_id_};
    auto prepared = std::make_shared<prepared_child>(
      prepare_child(id, std::move(spec), std::move(events), folder_));
    inbox().post([this, id, prepared] { add(id, std::move(*prepared)); });
    return id;
  }

  void post(child_id id, std::function<void(child&)> what) {
    inbox().post([this, id, what = std::move(what)] {
      if (auto at = children_.find(id); at != children_.end())
        what(*at->second);
      retry_guard();
    });
  }

  void check_all() {
    inbox().post([this] {
      for (auto& [id, x] : children_)
        x->check();
      retry_guard();
    });
  }

private:
  mailbox& inbox() noexcept {
    return *loop_.inbox();
  }

  void watch_guard() {
    if (helper_.lost())
      return;
    guard_watch_ = loop_.add(helper_.pidfd(), EPOLLIN, [this](auto) {
      guard_watch_.reset();
      helper_.reap();
      if (options_.on_guard_lost)
        options_.on_guard_lost();
    });
  }

  void retry_guard() {
    if (!helper_.behind() || guard_timer_.armed())
      return;
    loop_.arm(guard_timer_, loop_.now() + guard_retry, [this] {
      helper_.retry();
      retry_guard();
    });
  }

  void add(child_id id, prepared_child prepared) {
    if (ending_ && !prepared.failure) {
      prepared.failure.emplace();
      prepared.failure->code = ECANCELED;
      prepared.failure->detail = "not started: shutting down";
    }
    auto x = std::make_unique<child>(context_, id, std::move(prepared));
    auto& ref = *x;
    children_.emplace(id, std::move(x));
    ref.start();
  }

  void on_gone(child_id id) {
    // Later: it is the child's own handler that tells us.
    inbox().post([this, id] {
      children_.erase(id);
      retry_guard();
      end_if_idle();
    });
  }

  void keep(std::unique_ptr<output_pump> pump) {
    auto* key = pump.get();
    auto& kept = pumps_[key];
    kept.pump = std::move(pump);
    auto since = loop_.now();
    watch_pump(kept, key, since);
  }

  struct kept_pump {
    std::unique_ptr<output_pump> pump;
    event_loop::timer timer;
  };

  void watch_pump(kept_pump& kept, output_pump* key, window_time since) {
    loop_.arm(kept.timer, loop_.now() + 20ms, [this, &kept, key, since] {
      if (kept.pump->done() || loop_.now() - since >= options_.drain_limit) {
        pumps_.erase(key);
        end_if_idle();
      } else {
        watch_pump(kept, key, since);
      }
    });
  }

  void shut_down() {
    ending_ = true;
    flush_until_ = loop_.now() + options_.drain_limit;
    for (auto& [id, x] : children_)
      x->kill();
    end_if_idle();
  }

  void end_if_idle() {
    if (!ending_ || !children_.empty())
      return;
    if ((pumps_.empty() && sink_.pending() == 0)
        || loop_.now() >= flush_until_) {
      pumps_.clear();
      loop_.stop();
      return;
    }
    loop_.arm(end_timer_, loop_.now() + 5ms, [this] { end_if_idle(); });
  }

  supervisor_options options_;
  const runtime_folder& folder_;
  guard& helper_;
  std::atomic<std::uint64_t> last_id_{0};
  event_loop loop_;
  output_sink sink_;
  task_thread codec_;
  process_table processes_;
  child_context context_;
  std::map<child_id, std::unique_ptr<child>> children_;
  std::map<output_pump*, kept_pump> pumps_;
  event_loop::watch guard_watch_;
  event_loop::timer guard_timer_;
  event_loop::timer end_timer_;
  window_time flush_until_{0};
  bool ending_ = false;
  std::thread thread_;
};

supervisor::supervisor(guard& helper, const runtime_folder& folder,
                       supervisor_options options)
  : impl_(std::make_unique<impl>(helper, folder, std::move(options))) {
  // nop
}

supervisor::~supervisor() = default;

child_id supervisor::start(child_spec spec, child_events events) {
  return impl_->start(std::move(spec), std::move(events));
}

void supervisor::stop(child_id id) {
  impl_->post(id, [](child& x) { x.stop(); });
}

void supervisor::kill(child_id id) {
  impl_->post(id, [](child& x) { x.kill(); });
}

void supervisor::signal(child_id id, int number) {
  impl_->post(id, [number](child& x) { x.signal(number); });
}

void supervisor::check_now() {
  impl_->check_all();
}

} // namespace leasehold::process
