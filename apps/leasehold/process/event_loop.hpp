// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/clock.hpp"
#include "leasehold/process/descriptor.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace leasehold::process {

/// The way into a loop from other threads. Shared, so that it outlives the
/// loop: what is posted after the loop has ended is dropped.
class mailbox {
public:
  using task = std::function<void()>;

  /// @throws std::system_error when there is no descriptor left.
  mailbox();

  /// Hands `what` to the loop's thread. Returns false, and drops it, once the
  /// box is closed. Any thread.
  bool post(task what);

  std::vector<task> take();

  /// Drops what waits and all that comes later.
  void close();

  int fd() const noexcept {
    return event_.get();
  }

private:
  descriptor event_;
  std::mutex mutex_;
  std::vector<task> tasks_;
  bool closed_ = false;
};

/// One thread's loop over descriptors and deadlines. All members but `inbox`
/// belong to that thread.
///
/// Deadlines are points on the machine's window clock, and the ones that are
/// due run before anything else of a round: after a pause of the process, or
/// of the machine, windows are looked at first.
class event_loop {
public:
  /// Receives the epoll events that came. May destroy its own watch.
  using handler = std::function<void(std::uint32_t)>;

  /// Interest in one descriptor; ends with the object. Destroy it before the
  /// descriptor is closed.
  class watch {
  public:
    watch() noexcept = default;
    watch(watch&& other) noexcept;
    watch& operator=(watch&& other) noexcept;
    ~watch();

    explicit operator bool() const noexcept {
      return loop_ != nullptr;
    }

    /// Waits for other events. EPOLLHUP and EPOLLERR come in any case.
    void change(std::uint32_t events);

    void reset() noexcept;

  private:
    friend class event_loop;
    event_loop* loop_ = nullptr;
    std::uint64_t key_ = 0;
    int fd_ = -1;
    std::uint32_t events_ = 0;
  };

  /// A one-shot deadline; cancelled with the object.
  class timer {
  public:
    timer() noexcept = default;
    timer(const timer&) = delete;
    timer& operator=(const timer&) = delete;
    ~timer();

    void reset() noexcept;

    bool armed() const noexcept {
      return loop_ != nullptr;
    }

  private:
    friend class event_loop;
    event_loop* loop_ = nullptr;
    std::pair<window_time, std::uint64_t> key_;
  };

  /// @throws std::system_error when there is no descriptor left.
  event_loop();

  /// An empty watch, with errno set, if the kernel refuses the descriptor.
  watch add(int fd, std::uint32_t events, handler on_event);

  /// Arms `which`, replacing what it waited for. A time that has passed fires
  /// in the next round.
  void arm(timer& which, window_time when, std::function<void()> on_due);

  void run();

  /// Makes `run` return after the current round.
  void stop() noexcept {
    stopped_ = true;
  }

  window_time now() const noexcept {
    return system_window_clock().now();
  }

  const std::shared_ptr<mailbox>& inbox() const noexcept {
    return inbox_;
  }

private:
  void set_alarm();
  void run_due();

  struct due {
    timer* owner;
    std::function<void()> run;
  };

  descriptor epoll_;
  descriptor alarm_;
  window_time alarm_at_ = window_time::max();
  window_time round_{0};
  std::shared_ptr<mailbox> inbox_;
  // Keys are never reused, so an event that was fetched before its watch went
  // away cannot reach the next owner of the same descriptor number.
  std::uint64_t last_key_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<handler>> handlers_;
  std::map<std::pair<window_time, std::uint64_t>, due> deadlines_;
  bool stopped_ = false;
};

} // namespace leasehold::process
