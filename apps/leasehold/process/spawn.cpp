// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/spawn.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string_view>

namespace leasehold::process {

namespace {

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (auto& x : strings)
    result.push_back(const_cast<char*>(x.c_str())); // execve's old signature
  result.push_back(nullptr);
  return result;
}

// -- between fork and exec: async-signal-safe calls only ----------------------

[[noreturn]] void give_up(int status, start_step step) {
  launch_failure what{errno, step};
  [[maybe_unused]] auto n = ::write(status, &what, sizeof(what));
  ::_exit(127);
}

void reset_signals() {
  // A TERM for us that came in between stays pending and ends us when the mask
  // goes; a SIGPIPE can only be the guard's, and being ignored drops it.
  struct sigaction action {};

  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
  action.sa_handler = SIG_DFL;
  for (auto i = 1; i <= SIGRTMAX; ++i)
    ::sigaction(i, &action, nullptr);
}

void close_on_exec_above_stdio() {
  if (::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) == 0)
    return;
  // Kernels before 5.11.
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  for (auto fd = STDERR_FILENO + 1; static_cast<rlim_t>(fd) < limit.rlim_cur;
       ++fd)
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void execute(const launch_plan& plan, char* const* argv, char* const* envp) {
  auto forbidden = false;
  errno = ENOENT;
  for (auto& program : plan.programs) {
    ::execve(program.c_str(), argv, envp);
    if (errno == EACCES)
      forbidden = true;
    else if (errno != ENOENT && errno != ENOTDIR)
      return;
  }
  // "Not allowed" says more than "not there either".
  if (forbidden)
    errno = EACCES;
}

[[noreturn]] void run_child(const launch_plan& plan, const guard& helper,
                            pid_t parent, int status, char* const* argv,
                            char* const* envp) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
    give_up(status, start_step::prepare);
  if (::getppid() != parent)
    ::_exit(127);
  ::setpgid(0, 0);
  if (auto code = helper.add_from_child(); code != 0) {
    errno = code;
    give_up(status, start_step::prepare);
  }
  if (!plan.directory.empty() && ::chdir(plan.directory.c_str()) != 0)
    give_up(status, start_step::directory);
  if (::dup2(plan.input, STDIN_FILENO) < 0
      || ::dup2(plan.output, STDOUT_FILENO) < 0
      || ::dup2(plan.error, STDERR_FILENO) < 0)
    give_up(status, start_step::prepare);
  close_on_exec_above_stdio();
  reset_signals();
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  execute(plan, argv, envp);
  give_up(status, start_step::execute);
}

} // namespace

std::vector<std::string>
merge_environment(const std::vector<std::string>& removed,
                  const variable_list& added) {
  std::vector<std::string> result;
  for (auto** at = environ; at && *at; ++at) {
    auto name = name_of(*at);
    auto same = [name](auto& x) { return x == name; };
    auto replaced = [name](auto& x) { return x.first == name; };
    if (std::none_of(removed.begin(), removed.end(), same)
        && std::none_of(added.begin(), added.end(), replaced))
      result.emplace_back(*at);
  }
  for (auto at = added.begin(); at != added.end(); ++at) {
    auto again = [at](auto& x) { return x.first == at->first; };
    if (std::none_of(at + 1, added.end(), again))
      result.push_back(at->first + '=' + at->second);
  }
  return result;
}

std::vector<std::string>
find_program(const std::string& name,
             const std::vector<std::string>& environment) {
  if (name.find('/') != std::string::npos)
    return {name};
  std::vector<std::string> result;
  if (name.empty())
    return result;
  std::string_view path = "/usr/local/bin:/usr/bin:/bin";
  for (std::string_view x : environment)
    if (name_of(x) == "PATH")
      path = x.substr(5);
  for (;;) {
    auto end = path.find(':');
    std::string folder{path.substr(0, end)};
    result.push_back((folder.empty() ? "." : folder) + '/' + name);
    if (end == std::string_view::npos)
      return result;
    path.remove_prefix(end + 1);
  }
}

launched launch(const launch_plan& plan, guard& helper) {
  launched result;
  auto argv = pointers(plan.arguments);
  auto envp = pointers(plan.environment);
  auto status = make_pipe();
  if (!status || !set_nonblocking(status->read)) {
    result.error = errno;
    return result;
  }
  auto parent = ::getpid();
  auto pid = ::fork();
  if (pid < 0) {
    result.error = errno;
    return result;
  }
  if (pid == 0)
    run_child(plan, helper, parent, status->write.get(), argv.data(),
              envp.data());
  // Both sides do it, so that neither depends on the other's pace. Fails once
  // the child has executed its program; then it has done it itself.
  ::setpgid(pid, pid);
  result.pidfd = open_pidfd(pid);
  if (!result.pidfd) {
    result.error = errno;
    ::kill(-pid, SIGKILL);
    ::waitid(P_PID, static_cast<id_t>(pid), nullptr, WEXITED | WNOWAIT);
    helper.remove(pid);
    ::waitpid(pid, nullptr, 0);
    return result;
  }
  result.pid = pid;
  result.status = std::move(status->read);
  return result;
}

} // namespace leasehold::process
