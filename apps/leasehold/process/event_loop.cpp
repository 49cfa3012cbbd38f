// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/event_loop.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace leasehold::process {

namespace {

constexpr std::uint64_t inbox_key = 0;
constexpr std::uint64_t alarm_key = 1;

descriptor need(int fd, const char* what) {
  auto result = above_stdio(descriptor{fd});
  if (!result)
    throw std::system_error(errno, std::generic_category(), what);
  return result;
}

void clear_counter(int fd) {
  std::uint64_t count;
  // Nothing to read is as good: another round has seen it.
  [[maybe_unused]] auto n = ::read(fd, &count, sizeof(count));
}

} // namespace

mailbox::mailbox()
  : event_(need(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
  // nop
}

bool mailbox::post(task what) {
  std::unique_lock lock{mutex_};
  if (closed_) {
    // What the task holds may post from its destructor.
    lock.unlock();
    return false;
  }
  tasks_.push_back(std::move(what));
  if (tasks_.size() == 1) {
    std::uint64_t one = 1;
    [[maybe_unused]] auto n = ::write(event_.get(), &one, sizeof(one));
  }
  return true;
}

std::vector<mailbox::task> mailbox::take() {
  clear_counter(event_.get());
  std::lock_guard lock{mutex_};
  return std::exchange(tasks_, {});
}

void mailbox::close() {
  std::vector<task> dropped;
  std::lock_guard lock{mutex_};
  closed_ = true;
  dropped.swap(tasks_);
  // `dropped` is destroyed after the lock: declared before it.
}

event_loop::watch::watch(watch&& other) noexcept {
  *this = std::move(other);
}

event_loop::watch& event_loop::watch::operator=(watch&& other) noexcept {
  if (this != &other) {
    reset();
    loop_ = std::exchange(other.loop_, nullptr);
    key_ = other.key_;
    fd_ = other.fd_;
    events_ = other.events_;
  }
  return *this;
}

event_loop::watch::~watch() {
  reset();
}

void event_loop::watch::change(std::uint32_t events) {
  if (!loop_ || events == events_)
    return;
  events_ = events;
  epoll_event event{};
  event.events = events;
  event.data.u64 = key_;
  ::epoll_ctl(loop_->epoll_.get(), EPOLL_CTL_MOD, fd_, &event);
}

void event_loop::watch::reset() noexcept {
  if (auto* loop = std::exchange(loop_, nullptr)) {
    ::epoll_ctl(loop->epoll_.get(), EPOLL_CTL_DEL, fd_, nullptr);
    loop->handlers_.erase(key_);
  }
}

event_loop::timer::~timer() {
  reset();
}

void event_loop::timer::reset() noexcept {
  if (auto* loop = std::exchange(loop_, nullptr))
    loop->deadlines_.erase(key_);
}

event_loop::event_loop()
  : epoll_(need(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
    alarm_(need(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK),
                "timerfd_create")),
    inbox_(std::make_shared<mailbox>()), last_key_(alarm_key) {
  for (auto [fd, key] : {std::pair{inbox_->fd(), inbox_key},
                         std::pair{alarm_.get(), alarm_key}}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = key;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      throw std::system_error(errno, std::generic_category(), "epoll_ctl");
  }
}

event_loop::watch event_loop::add(int fd, std::uint32_t events,
                                  handler on_event) {
  watch result;
  epoll_event event{};
  event.events = events;
  event.data.u64 = ++last_key_;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return result;
  handlers_.emplace(last_key_, std::make_shared<handler>(std::move(on_event)));
  result.loop_ = this;
  result.key_ = last_key_;
  result.fd_ = fd;
  result.events_ = events;
  return result;
}

void event_loop::arm(timer& which, window_time when,
                     std::function<void()> on_due) {
  which.reset();
  which.loop_ = this;
  // Later than the round that arms it, or the round might never end.
  when = std::max(when, round_ + window_time{1});
  which.key_ = {when, ++last_key_};
  deadlines_.emplace(which.key_, due{&which, std::move(on_due)});
}

void event_loop::run() {
  std::array<epoll_event, 128> events;
  while (!stopped_) {
    set_alarm();
    auto n = ::epoll_wait(epoll_.get(), events.data(),
                          static_cast<int>(events.size()), -1);
    run_due();
    for (auto i = 0; i < n; ++i) {
      auto& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 == inbox_key) {
        for (auto& task : inbox_->take())
          task();
      } else if (event.data.u64 == alarm_key) {
        clear_counter(alarm_.get());
        alarm_at_ = window_time::max();
      } else if (auto at = handlers_.find(event.data.u64);
                 at != handlers_.end()) {
        // A copy: the handler may destroy its own watch.
        auto run = at->second;
        (*run)(event.events);
      }
    }
  }
}

void event_loop::set_alarm() {
  if (deadlines_.empty())
    return;
  auto when = deadlines_.begin()->first.first;
  if (when == alarm_at_)
    return;
  alarm_at_ = when;
  // Zero would disarm.
  auto ns = std::max(when.count(), window_time::rep{1});
  itimerspec spec{};
  spec.it_value.tv_sec = ns / 1'000'000'000;
  spec.it_value.tv_nsec = ns % 1'000'000'000;
  ::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void event_loop::run_due() {
  round_ = now();
  while (!deadlines_.empty() && deadlines_.begin()->first.first <= round_) {
    auto node = deadlines_.extract(deadlines_.begin());
    node.mapped().owner->loop_ = nullptr;
    node.mapped().run();
  }
}

} // namespace leasehold::process
