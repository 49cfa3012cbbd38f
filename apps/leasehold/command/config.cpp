// SPDX-License-Identifier: Apache-2.0
#include "leasehold/command/command.hpp"
#include "leasehold/command/common.hpp"
#include "leasehold/exit_code.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace leasehold::app {

void add_config(CLI::App& app, globals& flags, chosen& run) {
  auto* cmd = app.add_subcommand("config", "Check a configuration file");
  cmd->group("Set up");
  cmd->require_subcommand(1);
  auto* check = cmd->add_subcommand(
    "check", "Report every problem of a file; connects to nothing");
  check->footer("Example:\n  leasehold config check --config leasehold.yaml\n\n"
                "Exits 0 if the file can be used, 78 if it cannot.");
  check->callback([&flags, &run] {
    run = [&flags] {
      if (flags.config.empty()) {
        complain("which file? Name it with --config FILE");
        return exit_code::usage;
      }
      auto settings = load_config(flags);
      if (!settings)
        return exit_code::bad_config;
      auto choice = open_store(*settings);
      if (!choice.source)
        return choice.exit_code;
      std::size_t units = 0;
      for (auto& pool : settings->pools)
        units += pool.work.size();
      if (!flags.quiet)
        print(fmt::format("{}: good; {} pool{}, {} unit{} of work, store {}\n",
                          flags.config, settings->pools.size(),
                          settings->pools.size() == 1 ? "" : "s", units,
                          units == 1 ? "" : "s", choice.source->display()));
      return exit_code::ok;
    };
  });
}

} // namespace leasehold::app
