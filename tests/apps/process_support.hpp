// SPDX-License-Identifier: Apache-2.0
// A supervisor with its surroundings, and ways to wait for what it does.
#pragma once

#include "leasehold/process/supervisor.hpp"

#include <boost/test/unit_test.hpp>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace leasehold::process::test {

using namespace std::chrono_literals;

/// Longer than anything may take on a loaded machine.
inline constexpr auto patience = 30s;

inline bool is_alive(pid_t pid) {
  std::ifstream in{"/proc/" + std::to_string(pid) + "/stat"};
  std::string text;
  std::getline(in, text);
  auto end = text.rfind(')');
  return end != std::string::npos && text[end + 2] != 'Z'
         && text[end + 2] != 'X';
}

/// For what has no event to wait on: looks every millisecond.
inline bool eventually(const std::function<bool()>& what,
                       std::chrono::nanoseconds limit = patience) {
  auto until = std::chrono::steady_clock::now() + limit;
  while (!what()) {
    if (std::chrono::steady_clock::now() > until)
      return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

/// The words of a line that are process IDs.
inline std::vector<pid_t> numbers_in(const std::string& line) {
  std::vector<pid_t> result;
  std::istringstream in{line};
  for (std::string word; in >> word;)
    if (std::all_of(word.begin(), word.end(), ::isdigit))
      result.push_back(std::stoi(word));
  return result;
}

/// Reads lines from a pipe as they come.
class line_reader {
public:
  explicit line_reader(descriptor fd)
    : fd_(std::move(fd)), thread_([this] { run(); }) {
    // nop
  }

  ~line_reader() {
    thread_.join();
  }

  /// The first line that contains `text`; fails the test if none comes.
  std::string wait_for(const std::string& text) {
    std::unique_lock lock{mutex_};
    std::string result;
    auto found = [&] {
      for (; looked_ < lines_.size(); ++looked_)
        if (lines_[looked_].find(text) != std::string::npos) {
          result = lines_[looked_++];
          return true;
        }
      return false;
    };
    BOOST_REQUIRE_MESSAGE(changed_.wait_for(lock, patience, found),
                          "no line with '" << text << "'");
    return result;
  }

  std::vector<std::string> lines() {
    std::lock_guard lock{mutex_};
    return lines_;
  }

private:
  void run() {
    std::string partial;
    char block[64 * 1024];
    for (ssize_t n; (n = ::read(fd_.get(), block, sizeof(block))) > 0;) {
      std::lock_guard lock{mutex_};
      for (ssize_t i = 0; i < n; ++i)
        if (block[i] == '\n')
          lines_.push_back(std::exchange(partial, {}));
        else
          partial += block[i];
      changed_.notify_all();
    }
  }

  descriptor fd_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  std::size_t looked_ = 0;
  std::thread thread_;
};

/// One child and what was told about it.
struct observed {
  std::promise<pid_t> started_promise;
  std::promise<child_exit> ended_promise;
  std::future<pid_t> started_future = started_promise.get_future();
  std::future<child_exit> ended_future = ended_promise.get_future();
  child_id id{};

  child_events events() {
    child_events result;
    result.on_start = [this](pid_t pid) { started_promise.set_value(pid); };
    result.on_exit
      = [this](const child_exit& x) { ended_promise.set_value(x); };
    return result;
  }

  pid_t pid() {
    BOOST_REQUIRE(
      (started_future.wait_for(patience) == std::future_status::ready));
    return started_future.get();
  }

  child_exit result() {
    BOOST_REQUIRE(
      (ended_future.wait_for(patience) == std::future_status::ready));
    return ended_future.get();
  }
};

struct world {
  /// @param read_output Whether somebody reads the prefixed lines.
  explicit world(bool read_output = true, supervisor_options options = {}) {
    auto ends = make_pipe();
    out = std::move(ends->write);
    if (read_output)
      output = std::make_unique<line_reader>(std::move(ends->read));
    else
      unread = std::move(ends->read);
    options.output_fd = out.get();
    aut = std::make_unique<supervisor>(helper, folder, std::move(options));
  }

  ~world() {
    end();
  }

  void end() {
    aut.reset();
    out.reset();
    output.reset();
  }

  static child_spec spec(std::vector<std::string> arguments) {
    child_spec result;
    result.argv = std::move(arguments);
    result.argv.insert(result.argv.begin(), LEASEHOLD_PROCESS_HELPER);
    result.label = "x";
    return result;
  }

  static std::shared_ptr<lease_window> window(std::chrono::nanoseconds left) {
    auto& clock = system_window_clock();
    return std::make_shared<lease_window>(clock, clock.now() + left);
  }

  std::unique_ptr<observed> start(child_spec what) {
    auto result = std::make_unique<observed>();
    result->id = aut->start(std::move(what), result->events());
    return result;
  }

  child_exit run(child_spec what) {
    return start(std::move(what))->result();
  }

  child_exit run_helper(std::vector<std::string> arguments) {
    return run(spec(std::move(arguments)));
  }

  guard helper;
  runtime_folder folder;
  descriptor out;
  descriptor unread;
  std::unique_ptr<line_reader> output;
  std::unique_ptr<supervisor> aut;
};

} // namespace leasehold::process::test
