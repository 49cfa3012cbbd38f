// SPDX-License-Identifier: Apache-2.0
//
// The commands of the program. Each registers itself with its options and
// returns, when it is the one that was chosen, what to run.
#pragma once

#include "leasehold/duration.hpp"

#include <functional>
#include <string>
#include <vector>

namespace CLI {

class App;

} // namespace CLI

namespace leasehold::app {

/// Flags that mean the same in every command.
struct globals {
  std::string store;
  std::string config;
  std::string output = "table";
  /// Empty unless it was given.
  std::string timeout;
  std::string log_format = "text";
  bool no_headers = false;
  int verbose = 0;
  bool quiet = false;
};

/// Set by the command that was parsed; returns the exit code.
using chosen = std::function<int()>;

void add_pool(CLI::App& app, globals& flags, chosen& run);

void add_list(CLI::App& app, globals& flags, chosen& run);

void add_show(CLI::App& app, globals& flags, chosen& run);

void add_checkpoint(CLI::App& app, globals& flags, chosen& run);

void add_schema(CLI::App& app, globals& flags, chosen& run);

void add_config(CLI::App& app, globals& flags, chosen& run);

} // namespace leasehold::app
