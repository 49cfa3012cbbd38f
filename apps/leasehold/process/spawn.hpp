// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/process/descriptor.hpp"
#include "leasehold/process/guard.hpp"

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace leasehold::process {

/// How far a start has come; an errno value means little without it.
enum class start_step : std::uint8_t {
  /// Files, pipes, the process itself.
  prepare,
  /// Entering the working directory.
  directory,
  /// Executing the program.
  execute,
};

/// Everything a fork needs, computed before it: between fork and exec nothing
/// may allocate.
struct launch_plan {
  std::vector<std::string> arguments;
  /// `NAME=value`, complete.
  std::vector<std::string> environment;
  /// Paths to try, in this order.
  std::vector<std::string> programs;
  /// Empty: stay where we are.
  std::string directory;
  /// Become 0, 1 and 2 in the child. They stay the caller's.
  int input = -1;
  int output = -1;
  int error = -1;
};

using variable_list = std::vector<std::pair<std::string, std::string>>;

/// Our environment without `removed`, then `added`, the later entry winning.
std::vector<std::string>
merge_environment(const std::vector<std::string>& removed,
                  const variable_list& added);

/// Where a program of that name may be, by the PATH in `environment`. A name
/// with a slash stands for itself.
std::vector<std::string>
find_program(const std::string& name,
             const std::vector<std::string>& environment);

/// A started child. It leads a process group of its own and dies with the
/// thread that started it.
struct launched {
  pid_t pid = -1;
  descriptor pidfd;
  /// End of file: the program runs (or the child was killed before). Otherwise
  /// a `launch_failure`, and the child ends by itself.
  descriptor status;
  /// Not 0: nothing was started.
  int error = 0;
};

struct launch_failure {
  std::int32_t error;
  start_step step;
};

/// Starts a child from the calling thread, which has all signals blocked.
launched launch(const launch_plan& plan, guard& helper);

} // namespace leasehold::process
