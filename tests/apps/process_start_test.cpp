// SPDX-License-Identifier: Apache-2.0
#include "process_support.hpp"

#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>

using namespace leasehold;
using namespace leasehold::process;
using namespace leasehold::process::test;

namespace fs = std::filesystem;

namespace {

std::size_t open_descriptors() {
  fs::directory_iterator all{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

bool has_children(pid_t except) {
  siginfo_t info{};
  // A zombie of ours would show up here; the guard lives.
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0
         && info.si_pid != 0 && info.si_pid != except;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(process_start_suite, world)

BOOST_AUTO_TEST_CASE(exit_codes_pass_through) {
  for (auto code : {0, 1, 2, 77, 125, 126, 127, 255}) {
    auto x = run_helper({"exit", std::to_string(code)});
    BOOST_TEST((x.how == child_exit::kind::exited));
    BOOST_TEST(x.code == code);
    BOOST_TEST(shell_exit_code(x) == code);
    BOOST_TEST(!x.stop_requested);
    BOOST_TEST(!x.killed);
  }
}

BOOST_AUTO_TEST_CASE(signals_become_128_and_more) {
  for (auto number : {SIGSEGV, SIGKILL, SIGTERM}) {
    auto x = run_helper({"die", std::to_string(number)});
    BOOST_TEST((x.how == child_exit::kind::signalled));
    BOOST_TEST(x.code == number);
    BOOST_TEST(shell_exit_code(x) == 128 + number);
    BOOST_TEST(!x.killed);
  }
}

BOOST_AUTO_TEST_CASE(a_missing_program_is_127) {
  for (auto* name : {"/nonexistent/program", "no-such-program-anywhere"}) {
    child_spec what;
    what.argv = {name};
    auto x = run(what);
    BOOST_TEST((x.how == child_exit::kind::not_started));
    BOOST_TEST((x.step == start_step::execute));
    BOOST_TEST(x.code == ENOENT);
    BOOST_TEST(shell_exit_code(x) == 127);
    BOOST_TEST(x.detail.find(name) != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_program_that_may_not_run_is_126) {
  auto path = folder.file("plain");
  BOOST_REQUIRE(write_private_file(path, "no program") == 0);
  child_spec what;
  what.argv = {path};
  auto x = run(what);
  BOOST_TEST((x.how == child_exit::kind::not_started));
  BOOST_TEST(x.code == EACCES);
  BOOST_TEST(shell_exit_code(x) == 126);
}

BOOST_AUTO_TEST_CASE(a_missing_folder_is_not_a_missing_program) {
  auto what = spec({"exit", "0"});
  what.directory = "/nonexistent";
  auto x = run(what);
  BOOST_TEST((x.step == start_step::directory));
  BOOST_TEST(x.code == ENOENT);
  BOOST_TEST(shell_exit_code(x) == 126);
}

BOOST_AUTO_TEST_CASE(a_bad_specification_is_reported_not_executed) {
  BOOST_TEST(run(child_spec{}).code == EINVAL);
  auto what = spec({"exit", "0"});
  what.environment = {{"A=B", "secret"}};
  auto x = run(what);
  BOOST_TEST(x.code == EINVAL);
  BOOST_TEST(x.detail.find("secret") == std::string::npos);
  what = spec({"exit", "0"});
  what.output = output_mode::file;
  what.output_file = "/nonexistent/log";
  BOOST_TEST(run(what).code == ENOENT);
}

// hashicorp/consul, etcd-io/etcd#10840: the user's variables stay.
BOOST_AUTO_TEST_CASE(variables_are_kept_added_and_removed) {
  ::setenv("FOO", "1", 1);
  ::setenv("LEASEHOLD_X", "2", 1);
  ::setenv("LEASEHOLD_WORK_ID", "outer", 1);
  ::setenv("LEASEHOLD_STATE", "outer", 1);
  ::setenv("LEASEHOLD_STORE", "postgresql://u:secret@h/d", 1);
  auto what = spec({"env", "FOO", "LEASEHOLD_X", "LEASEHOLD_WORK_ID",
                    "LEASEHOLD_STATE", "LEASEHOLD_STORE", "LEASEHOLD_SOCKET"});
  what.environment = {{"LEASEHOLD_WORK_ID", "inner"}};
  what.removed_environment = {"LEASEHOLD_STORE"};
  BOOST_TEST(run(what).code == 0);
  BOOST_TEST(output->wait_for("FOO") == "x | FOO=1");
  BOOST_TEST(output->wait_for("LEASEHOLD_X") == "x | LEASEHOLD_X=2");
  BOOST_TEST(output->wait_for("WORK") == "x | LEASEHOLD_WORK_ID=inner");
  BOOST_TEST(output->wait_for("STATE") == "x | LEASEHOLD_STATE is not set");
  BOOST_TEST(output->wait_for("STORE") == "x | LEASEHOLD_STORE is not set");
  BOOST_TEST(output->wait_for("SOCKET").find(folder.path())
             != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_prior_state_is_a_private_file_while_the_child_lives) {
  auto what = spec({"print-file", "LEASEHOLD_STATE"});
  what.state = "a state of 21 bytes..";
  BOOST_TEST(run(what).code == 0);
  BOOST_TEST(output->wait_for("21 bytes") == "x | a state of 21 bytes..");
  // The lock of the folder remains.
  BOOST_TEST(std::distance(fs::directory_iterator{folder.path()}, {}) == 1);

  struct stat info {};

  ::stat(folder.path().c_str(), &info);
  BOOST_TEST((info.st_mode & 0777) == 0700u);
}

BOOST_AUTO_TEST_CASE(a_child_inherits_three_descriptors) {
  int extra[2];
  BOOST_REQUIRE(::pipe(extra) == 0); // without close-on-exec
  auto path = folder.file("list");
  auto what = spec({"fds"});
  what.output = output_mode::file;
  what.output_file = path;
  BOOST_TEST(run(what).code == 0);
  ::close(extra[0]);
  ::close(extra[1]);
  std::ifstream in{path};
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  BOOST_TEST(text == "fd 0\nfd 1\nfd 2\n");
}

BOOST_AUTO_TEST_CASE(a_child_starts_with_default_signals) {
  auto old = std::signal(SIGUSR2, SIG_IGN);
  sigset_t some;
  sigset_t saved;
  ::sigemptyset(&some);
  ::sigaddset(&some, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &some, &saved);
  BOOST_TEST(run_helper({"signals"}).code == 0);
  ::pthread_sigmask(SIG_SETMASK, &saved, nullptr);
  std::signal(SIGUSR2, old);
  BOOST_TEST(output->wait_for("SigBlk").ends_with("\t0000000000000000"));
  BOOST_TEST(output->wait_for("SigIgn").ends_with("\t0000000000000000"));
}

BOOST_AUTO_TEST_CASE(a_thousand_starts_leave_nothing_behind) {
  child_spec what;
  what.argv = {"/bin/true"};
  run(what);
  auto before = open_descriptors();
  for (auto round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<observed>> all;
    for (auto i = 0; i < 50; ++i) {
      what.argv = {i % 10 == 9 ? "/nonexistent" : "/bin/true"};
      what.state = "state";
      all.push_back(start(what));
    }
    for (auto& x : all)
      x->result();
  }
  BOOST_TEST(eventually([&] { return open_descriptors() == before; }, 2s));
  BOOST_TEST(!has_children(helper.pid()));
  BOOST_TEST(std::distance(fs::directory_iterator{folder.path()}, {}) == 1);
}

BOOST_AUTO_TEST_CASE(the_destructor_kills_and_reports) {
  auto first = start(spec({"stubborn", "2"}));
  auto pids = numbers_in(output->wait_for("ready"));
  // One that may not even have begun.
  auto second = start(spec({"stubborn", "0"}));
  aut.reset();
  BOOST_TEST(first->result().killed);
  second->result();
  for (auto pid : pids)
    BOOST_TEST(!is_alive(pid));
}

BOOST_AUTO_TEST_CASE(folders_of_killed_owners_are_removed) {
  auto base = folder.file("base");
  fs::create_directories(base + "/leasehold-stale1");
  BOOST_REQUIRE(write_private_file(base + "/leasehold-stale1/lock", "") == 0);
  fs::create_directories(base + "/leasehold-other");
  runtime_folder living{base};
  runtime_folder another{base};
  BOOST_TEST(!fs::exists(base + "/leasehold-stale1"));
  BOOST_TEST(fs::exists(base + "/leasehold-other"));
  BOOST_TEST(fs::exists(living.path()));
}

BOOST_AUTO_TEST_SUITE_END()
