// SPDX-License-Identifier: Apache-2.0
#include "leasehold/command/command.hpp"
#include "leasehold/command/common.hpp"
#include "leasehold/exit_code.hpp"
#include "leasehold/nearest.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace leasehold::app {

namespace {

constexpr const char* introduction
  = "leasehold runs work under leases and hands its progress over.\n"
    "\n"
    "  leasehold pool --config leasehold.yaml   run the pools of a file\n"
    "  leasehold list --config leasehold.yaml   see who works on what\n"
    "\n"
    "A unit of work is held by one process at a time. When that process ends,\n"
    "crashes or is cut off, another one goes on from its last checkpoint.\n"
    "\n"
    "leasehold --help lists all commands, leasehold COMMAND --help explains "
    "one.\n";

int complain_about(const CLI::App& app, const CLI::ParseError& err, int argc,
                   char** argv) {
  std::string text = err.what();
  std::string hint = "see leasehold --help";
  // CLI11 reports an unknown command as a missing or a surplus argument.
  std::vector<std::string> commands;
  for (auto* cmd : app.get_subcommands({}))
    commands.push_back(cmd->get_name());
  std::string typed = argc > 1 ? argv[1] : "";
  if (!typed.empty() && typed[0] != '-'
      && std::find(commands.begin(), commands.end(), typed)
           == commands.end()) {
    text = fmt::format("there is no command \"{}\"", typed);
    if (auto near = nearest(commands, typed); !near.empty())
      hint = fmt::format("did you mean \"{}\"?", near);
  }
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  complain(fmt::format("{}; {}", text, hint));
  return exit_code::usage;
}

int run_program(int argc, char** argv) {
  CLI::App app{"leasehold runs work under leases and hands its progress over"};
  app.set_version_flag("-V,--version", "leasehold " LEASEHOLD_VERSION);
  app.fallthrough();
  app.require_subcommand(0, 1);
  globals flags;
  app.add_option("-s,--store", flags.store,
                 "postgresql://..., sqlite:///... or memory:")
    ->envname("LEASEHOLD_STORE");
  app.add_option("-c,--config", flags.config, "Configuration file (YAML)")
    ->envname("LEASEHOLD_CONFIG");
  app
    .add_option("-o,--output", flags.output,
                "table, wide, json, ndjson or name")
    ->envname("LEASEHOLD_OUTPUT")
    ->check(CLI::IsMember({"table", "wide", "json", "ndjson", "name"}));
  app.add_option("--timeout", flags.timeout, "Longest wait for the store")
    ->capture_default_str();
  app.add_option("--log-format", flags.log_format, "text or json")
    ->envname("LEASEHOLD_LOG_FORMAT")
    ->check(CLI::IsMember({"text", "json"}));
  app.add_flag("--no-headers", flags.no_headers, "Tables without headers");
  app.add_flag("-v,--verbose", flags.verbose, "Log every renewal");
  app.add_flag("-q,--quiet", flags.quiet, "Say only what went wrong");
  chosen run;
  add_pool(app, flags, run);
  add_checkpoint(app, flags, run);
  add_list(app, flags, run);
  add_show(app, flags, run);
  add_schema(app, flags, run);
  add_config(app, flags, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return exit_code::ok;
  } catch (const CLI::CallForVersion& x) {
    fmt::print("{}\n", x.what());
    return exit_code::ok;
  } catch (const CLI::ParseError& x) {
    return complain_about(app, x, argc, argv);
  }
  if (!run) {
    fmt::print("{}", introduction);
    return exit_code::ok;
  }
  return run();
}

} // namespace

} // namespace leasehold::app

int main(int argc, char** argv) {
  // A reader that went away (| head) ends the output, not with a message.
  try {
    return leasehold::app::run_program(argc, argv);
  } catch (const std::exception& x) {
    leasehold::app::complain(fmt::format("{}", x.what()));
    return leasehold::app::exit_code::bug;
  }
}
