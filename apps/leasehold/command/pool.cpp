// SPDX-License-Identifier: Apache-2.0
#include "leasehold/command/command.hpp"
#include "leasehold/command/common.hpp"
#include "leasehold/exit_code.hpp"
#include "leasehold/pool_program.hpp"

#include <CLI/CLI.hpp>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>

namespace leasehold::app {

namespace {

backend::schema_policy policy_of(config::schema_policy x) {
  switch (x) {
    case config::schema_policy::apply:
      return backend::schema_policy::apply;
    case config::schema_policy::off:
      return backend::schema_policy::off;
    default:
      return backend::schema_policy::check;
  }
}

log_format format_of(const config::file& settings) {
  if (settings.log.format == config::log_format::automatic)
    return isatty(STDERR_FILENO) != 0 ? log_format::text : log_format::json;
  return settings.log.format == config::log_format::json ? log_format::json
                                                         : log_format::text;
}

int run_pool_command(const globals& flags,
                     const std::optional<std::string>& holder,
                     bool log_format_given) {
  if (flags.config.empty()) {
    complain("which pools? Name their file with --config FILE");
    return exit_code::usage;
  }
  if (!flags.timeout.empty()) {
    complain("--timeout: pools take it from their file; set store.timeout in "
             + flags.config);
    return exit_code::usage;
  }
  if (holder) {
    if (auto problem = identifier_problem(*holder); !problem.empty()) {
      complain("--holder " + printable(*holder) + " " + std::string{problem});
      return exit_code::usage;
    }
  }
  auto settings = load_config(flags);
  if (!settings)
    return exit_code::bad_config;
  if (holder)
    settings->node_holder = *holder;
  if (!flags.store.empty())
    settings->store.url = flags.store;
  auto choice = open_store(*settings);
  if (!choice.source)
    return choice.exit_code;
  auto ready = choice.source->prepare_schema(policy_of(settings->store.schema));
  if (!ready.ok())
    return report(*choice.source, ready.code, ready.also, ready.detail);
  auto level = static_cast<log_level>(settings->log.level);
  if (flags.verbose > 0)
    level = log_level::debug;
  if (flags.quiet)
    level = log_level::warning;
  auto format = format_of(*settings);
  if (log_format_given)
    format = flags.log_format == "json" ? log_format::json : log_format::text;
  do_without_closed_streams();
  logger log{level, format};
  return run_pools(*settings, *choice.source, log);
}

} // namespace

void add_pool(CLI::App& app, globals& flags, chosen& run) {
  auto* cmd
    = app.add_subcommand("pool", "Run the pools of a YAML file until stopped");
  cmd->group("Work");
  cmd->footer("Example:\n  leasehold pool --config leasehold.yaml\n\n"
              "TERM or INT stops it in good order: children are stopped, their "
              "leases\nreleased; exits 69 if one could not be. A second one, "
              "a second later or more,\nkills them and exits 1.");
  auto holder = std::make_shared<std::string>();
  auto* option
    = cmd
        ->add_option("--holder", *holder,
                     "Who we are in the store (default: host:pid:random)")
        ->envname("LEASEHOLD_HOLDER");
  cmd->callback([&app, &flags, &run, holder, option] {
    auto format_given = app.count("--log-format") > 0;
    auto name = option->count() > 0 ? std::optional{*holder} : std::nullopt;
    run = [&flags, name, format_given] {
      return run_pool_command(flags, name, format_given);
    };
  });
}

} // namespace leasehold::app
