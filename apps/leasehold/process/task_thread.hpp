// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/process/blocked_signals.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace leasehold::process {

/// One thread that runs tasks in order, for what would hold up the loop.
class task_thread {
public:
  using task = std::function<void()>;

  task_thread() {
    blocked_signals scope;
    thread_ = std::thread{[this] { run(); }};
  }

  /// Drops what has not begun and waits for what has.
  ~task_thread() {
    stop();
  }

  /// Any thread. Drops the task once stopped.
  void post(task what) {
    std::unique_lock lock{mutex_};
    if (!stopped_) {
      tasks_.push_back(std::move(what));
      ready_.notify_one();
    }
    lock.unlock();
  }

  void stop() {
    {
      std::lock_guard lock{mutex_};
      stopped_ = true;
    }
    ready_.notify_one();
    if (thread_.joinable())
      thread_.join();
    tasks_.clear();
  }

private:
  void run() {
    for (;;) {
      std::unique_lock lock{mutex_};
      ready_.wait(lock, [this] { return stopped_ || !tasks_.empty(); });
      if (stopped_)
        return;
      auto next = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      next();
    }
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<task> tasks_;
  bool stopped_ = false;
  std::thread thread_;
};

} // namespace leasehold::process
