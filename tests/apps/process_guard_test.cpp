// SPDX-License-Identifier: Apache-2.0
#include "process_support.hpp"

#include <sys/wait.h>

using namespace leasehold;
using namespace leasehold::process;
using namespace leasehold::process::test;

namespace {

// A process that owns a supervisor with a stubborn child.
struct owner {
  explicit owner(const char* window = nullptr) {
    auto ends = make_pipe();
    pid = ::fork();
    if (pid == 0) {
      ::dup2(ends->write.get(), STDOUT_FILENO);
      ::execl(LEASEHOLD_PROCESS_HELPER, LEASEHOLD_PROCESS_HELPER, "owner",
              window, nullptr);
      ::_exit(127);
    }
    ends->write.reset();
    output = std::make_unique<line_reader>(std::move(ends->read));
    guard_pid = numbers_in(output->wait_for("guard")).front();
    group = numbers_in(output->wait_for("ready"));
  }

  ~owner() {
    if (pid > 0)
      end(SIGKILL);
  }

  void end(int number) {
    ::kill(pid, number);
    ::waitpid(pid, nullptr, 0);
    pid = -1;
  }

  bool group_lives() const {
    return std::any_of(group.begin(), group.end(), is_alive);
  }

  pid_t pid = -1;
  pid_t guard_pid = -1;
  std::vector<pid_t> group;
  std::unique_ptr<line_reader> output;
};

std::string first_line(const std::string& path) {
  std::ifstream in{path};
  std::string result;
  std::getline(in, result);
  return result;
}

} // namespace

BOOST_AUTO_TEST_SUITE(process_guard_suite)

BOOST_AUTO_TEST_CASE(a_killed_owner_takes_its_groups_along) {
  owner x;
  BOOST_TEST(x.group.size() == 3u);
  x.end(SIGKILL);
  BOOST_TEST(eventually([&] { return !x.group_lives(); }, 1s));
  BOOST_TEST(eventually([&] { return !is_alive(x.guard_pid); }, 1s));
}

BOOST_AUTO_TEST_CASE(the_guard_is_out_of_reach_of_the_terminal) {
  owner x;
  auto proc = "/proc/" + std::to_string(x.guard_pid);
  BOOST_TEST(first_line(proc + "/comm") == "leasehold-guard");
  BOOST_TEST(::getsid(x.guard_pid) == x.guard_pid);
  for (auto number : {SIGTERM, SIGINT, SIGHUP})
    ::kill(x.guard_pid, number);
  x.end(SIGTERM);
  BOOST_TEST(eventually([&] { return !x.group_lives(); }, 1s));
}

BOOST_AUTO_TEST_CASE(a_frozen_owner_does_not_prolong_the_window) {
  owner x{"1500"};
  ::kill(x.pid, SIGSTOP);
  BOOST_TEST(x.group_lives());
  BOOST_TEST(eventually([&] { return !x.group_lives(); }, 3s));
}

BOOST_AUTO_TEST_CASE(a_group_that_was_removed_is_not_killed) {
  auto helper = std::make_unique<guard>();
  auto ends = make_pipe();
  auto pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);
    helper->add_from_child();
    ends->write.reset();
    ::pause();
    ::_exit(0);
  }
  ends->write.reset();
  char c;
  BOOST_TEST(::read(ends->read.get(), &c, 1) == 0);
  helper->expire(pid, system_window_clock().now() + 1h);
  helper->remove(pid);
  helper.reset();
  BOOST_TEST(is_alive(pid));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

BOOST_AUTO_TEST_CASE(the_loss_of_the_guard_is_reported_and_survived) {
  std::promise<void> lost;
  supervisor_options options;
  options.on_guard_lost = [&] { lost.set_value(); };
  world x{true, options};
  ::kill(x.helper.pid(), SIGKILL);
  BOOST_TEST(
    (lost.get_future().wait_for(patience) == std::future_status::ready));
  BOOST_TEST(x.run_helper({"exit", "3"}).code == 3);
}

BOOST_AUTO_TEST_CASE(a_guard_that_does_not_read_holds_nothing_up) {
  world x;
  ::kill(x.helper.pid(), SIGSTOP);
  child_spec what;
  what.argv = {"/bin/true"};
  for (auto i = 0; i < 20; ++i)
    BOOST_TEST(x.run(what).code == 0);
  ::kill(x.helper.pid(), SIGCONT);
}

BOOST_AUTO_TEST_SUITE_END()
