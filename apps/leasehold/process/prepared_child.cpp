// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace leasehold::process {

namespace {

constexpr const char* socket_variable = "LEASEHOLD_SOCKET";
constexpr const char* state_variable = "LEASEHOLD_STATE";

child_exit failed(int code, std::string_view what) {
  child_exit result;
  result.code = code;
  result.detail = fmt::format("{}: {}", what, std::strerror(code));
  return result;
}

bool has_nul(const std::string& x) {
  return x.find('\0') != std::string::npos;
}

// Names of variables are shown, values are not: they may be secrets.
std::optional<child_exit> find_mistake(const child_spec& spec) {
  if (spec.argv.empty() || spec.argv.front().empty())
    return failed(EINVAL, "the command is empty");
  if (std::any_of(spec.argv.begin(), spec.argv.end(), has_nul))
    return failed(EINVAL, "an argument of the command contains NUL");
  for (auto& [name, value] : spec.environment)
    if (name.empty() || name.find('=') != std::string::npos || has_nul(name)
        || has_nul(value))
      return failed(EINVAL, fmt::format("environment variable '{}'", name));
  return std::nullopt;
}

descriptor open_file(const std::string& path, int flags) {
  // Without O_NONBLOCK a FIFO that nobody reads would hold us up.
  auto result = above_stdio(descriptor{
    ::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640)});
  if (result)
    ::fcntl(result.get(), F_SETFL, flags & O_APPEND);
  return result;
}

std::optional<child_exit> open_streams(prepared_child& x) {
  auto& plan = x.plan;
  plan.input = STDIN_FILENO;
  plan.output = STDOUT_FILENO;
  plan.error = STDERR_FILENO;
  if (x.spec.input == input_mode::none) {
    x.input = open_file("/dev/null", O_RDONLY);
    if (!x.input)
      return failed(errno, "/dev/null");
    plan.input = x.input.get();
  }
  switch (x.spec.output) {
    case output_mode::inherit:
      return std::nullopt;
    case output_mode::file:
    case output_mode::discard: {
      auto path
        = x.spec.output == output_mode::file ? x.spec.output_file : "/dev/null";
      x.output = open_file(path, O_WRONLY | O_CREAT | O_APPEND);
      if (!x.output)
        return failed(errno, fmt::format("output file '{}'", path));
      plan.output = plan.error = x.output.get();
      return std::nullopt;
    }
    default:
      break;
  }
  for (auto* end : {&x.output, &x.error_output}) {
    auto ends = make_pipe();
    if (!ends)
      return failed(errno, "pipe");
    *end = std::move(ends->write);
    x.pipes.push_back(std::move(ends->read));
  }
  plan.output = x.output.get();
  plan.error = x.error_output.get();
  return std::nullopt;
}

std::optional<child_exit> make_files(prepared_child& x, child_id id,
                                     const runtime_folder& folder) {
  auto number = static_cast<std::uint64_t>(id);
  auto socket = folder.file(fmt::format("{}.sock", number));
  x.socket = socket_file::listen(socket);
  if (!x.socket)
    return failed(errno, fmt::format("socket '{}'", socket));
  x.spec.environment.emplace_back(socket_variable, socket);
  if (!x.spec.state) {
    // An outer lease may have set it.
    x.spec.removed_environment.emplace_back(state_variable);
    return std::nullopt;
  }
  auto state = folder.file(fmt::format("{}.state", number));
  if (auto code = write_private_file(state, *x.spec.state); code != 0)
    return failed(code, fmt::format("state file '{}'", state));
  x.state_file = scratch_file{state};
  x.spec.environment.emplace_back(state_variable, state);
  // It is in the file now and may be big.
  x.spec.state = std::nullopt;
  return std::nullopt;
}

} // namespace

scratch_file::~scratch_file() {
  if (!path_.empty())
    ::unlink(path_.c_str());
}

prepared_child prepare_child(child_id id, child_spec spec, child_events events,
                             const runtime_folder& folder) {
  prepared_child result;
  result.spec = std::move(spec);
  result.events = std::move(events);
  result.failure = find_mistake(result.spec);
  if (!result.failure)
    result.failure = open_streams(result);
  if (!result.failure)
    result.failure = make_files(result, id, folder);
  auto& plan = result.plan;
  plan.environment = merge_environment(result.spec.removed_environment,
                                       result.spec.environment);
  plan.arguments = result.spec.argv;
  plan.directory = result.spec.directory;
  if (!plan.arguments.empty())
    plan.programs = find_program(plan.arguments.front(), plan.environment);
  return result;
}

} // namespace leasehold::process
