// SPDX-License-Identifier: Apache-2.0
// What the process tests start as children: one program, many behaviours.
#include "leasehold/process/checkpoint_client.hpp"
#include "leasehold/process/supervisor.hpp"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

using namespace leasehold;
using namespace leasehold::process;

namespace {

using arguments = std::vector<std::string>;

void ignore_polite_signals() {
  for (auto x : {SIGTERM, SIGINT, SIGHUP})
    std::signal(x, SIG_IGN);
}

[[noreturn]] void wait_for_ever() {
  for (;;)
    ::pause();
}

void say(const std::string& line) {
  std::cout << line << std::endl;
}

template <class F>
pid_t spawn(F body) {
  auto pid = ::fork();
  if (pid == 0) {
    body();
    wait_for_ever();
  }
  return pid;
}

int stubborn(const arguments& args) {
  ignore_polite_signals();
  auto line = "ready " + std::to_string(::getpid());
  for (auto i = std::stoi(args.at(0)); i > 0; --i)
    line += ' ' + std::to_string(spawn(ignore_polite_signals));
  say(line);
  wait_for_ever();
}

int orphan(const arguments&) {
  say("ready " + std::to_string(spawn(ignore_polite_signals)));
  return 0;
}

int escape(const arguments&) {
  int ready[2];
  if (::pipe(ready) != 0)
    return 1;
  auto pid = spawn([&] {
    ::setsid();
    ::close(ready[0]);
    ::close(ready[1]);
  });
  ::close(ready[1]);
  char c;
  [[maybe_unused]] auto n = ::read(ready[0], &c, 1);
  say("ready " + std::to_string(pid));
  return 0;
}

int polite(const arguments& args) {
  std::signal(SIGTERM, [](int) { ::_exit(7); });
  if (!args.empty() && args[0] == "stopped") {
    say("ready " + std::to_string(::getpid()));
    std::raise(SIGSTOP);
  } else {
    say("ready " + std::to_string(::getpid()));
  }
  wait_for_ever();
}

int list_descriptors(const arguments&) {
  auto* folder = ::opendir("/proc/self/fd");
  while (auto* entry = ::readdir(folder))
    if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != ::dirfd(folder))
      say(std::string{"fd "} + entry->d_name);
  ::closedir(folder);
  return 0;
}

int print_lines(const arguments& args) {
  auto count = std::stoi(args.at(0));
  for (auto i = 0; i < count; ++i)
    std::printf("line %d of a text that is neither short nor long\n", i);
  return 0;
}

int flood(const arguments& args) {
  std::string block(64 * 1024, 'x');
  for (std::size_t i = 99; i < block.size(); i += 100)
    block[i] = '\n';
  for (auto left = std::stol(args.at(0)); left > 0;) {
    auto n = ::write(left % 2 == 0 ? 1 : 2, block.data(), block.size());
    if (n < 0)
      return 1;
    left -= n;
  }
  return 0;
}

int print_variables(const arguments& args) {
  for (auto& name : args) {
    auto* value = std::getenv(name.c_str());
    say(name + (value ? std::string{"="} + value : " is not set"));
  }
  return 0;
}

int print_file_of(const arguments& args) {
  std::ifstream in{std::getenv(args.at(0).c_str())};
  std::cout << in.rdbuf() << std::endl;
  return 0;
}

int print_status(const arguments&) {
  std::ifstream in{"/proc/self/status"};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("SigBlk") || line.starts_with("SigIgn"))
      say(line);
  return 0;
}

int client_put(const arguments& args) {
  auto result = checkpoint_client::from_environment().put(args.at(0));
  say(result.ok() ? "stored" : result.error + ": " + result.message);
  return result.exit_code;
}

int client_get(const arguments&) {
  auto result = checkpoint_client::from_environment().get();
  say(result.state.value_or("none"));
  return result.exit_code;
}

int client_window(const arguments&) {
  auto result = checkpoint_client::from_environment().window();
  say("left " + std::to_string(result.window_left.count()) + " "
      + std::to_string(result.stop_requested));
  return result.exit_code;
}

// Owns children as the program does; waits to be killed.
int owner(const arguments& args) {
  guard helper;
  runtime_folder folder;
  supervisor aut{helper, folder};
  child_spec spec;
  spec.argv = {"/proc/self/exe", "stubborn", "2"};
  spec.label = "owned";
  std::shared_ptr<lease_window> window;
  if (!args.empty()) {
    auto& clock = system_window_clock();
    window = std::make_shared<lease_window>(
      clock, clock.now() + std::chrono::milliseconds{std::stoi(args[0])});
    spec.window = window;
  }
  say("guard " + std::to_string(helper.pid()));
  aut.start(std::move(spec), {});
  wait_for_ever();
}

int give_code(const arguments& args) {
  return std::stoi(args.at(0));
}

int die(const arguments& args) {
  rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  auto number = std::stoi(args.at(0));
  std::signal(number, SIG_DFL);
  ::kill(::getpid(), number);
  wait_for_ever();
}

const std::map<std::string, int (*)(const arguments&)> behaviours{
  {"die", die},
  {"env", print_variables},
  {"escape", escape},
  {"exit", give_code},
  {"fds", list_descriptors},
  {"flood", flood},
  {"get", client_get},
  {"lines", print_lines},
  {"orphan", orphan},
  {"owner", owner},
  {"polite", polite},
  {"print-file", print_file_of},
  {"put", client_put},
  {"signals", print_status},
  {"stubborn", stubborn},
  {"window", client_window},
};

} // namespace

int main(int argc, char** argv) {
  if (argc < 2 || !behaviours.contains(argv[1]))
    return 64;
  return behaviours.at(argv[1])({argv + 2, argv + argc});
}
