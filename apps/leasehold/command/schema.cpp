// SPDX-License-Identifier: Apache-2.0
#include "leasehold/command/command.hpp"
#include "leasehold/command/common.hpp"
#include "leasehold/exit_code.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace leasehold::app {

namespace {

int print_schema(const globals& flags) {
  auto choice = choose_store(flags);
  if (!choice.source)
    return choice.exit_code;
  for (auto& statement : choice.source->schema_statements())
    print(statement + ";\n");
  return exit_code::ok;
}

int check_schema(const globals& flags) {
  auto choice = choose_store(flags);
  if (!choice.source)
    return choice.exit_code;
  auto got = choice.source->check_schema();
  if (!got.ok())
    return report(*choice.source, got.code, got.also, got.detail);
  if (!flags.quiet)
    tell(
      fmt::format("store {}: the schema is right", choice.source->display()));
  return exit_code::ok;
}

int apply_schema(const globals& flags, bool dry_run, bool show_sql) {
  auto choice = choose_store(flags);
  if (!choice.source)
    return choice.exit_code;
  if (dry_run || show_sql)
    for (auto& statement : choice.source->schema_statements())
      print(statement + ";\n");
  if (dry_run)
    return exit_code::ok;
  auto got = choice.source->apply_schema();
  if (!got.ok())
    return report(*choice.source, got.code, got.also, got.detail);
  if (!flags.quiet)
    tell(fmt::format("store {}: the schema is in place",
                     choice.source->display()));
  return exit_code::ok;
}

} // namespace

void add_schema(CLI::App& app, globals& flags, chosen& run) {
  auto* cmd = app.add_subcommand("schema", "Print, check or create the tables");
  cmd->group("Set up");
  cmd->require_subcommand(1);
  cmd->footer("Example:\n  leasehold schema apply --store "
              "postgresql://leasehold@db.internal/leasehold");
  auto* print = cmd->add_subcommand("print", "Print the SQL and stop");
  print->callback([&] { run = [&flags] { return print_schema(flags); }; });
  auto* check = cmd->add_subcommand(
    "check", "Name each difference; exits 65 if there is one");
  check->callback([&] { run = [&flags] { return check_schema(flags); }; });
  auto* apply = cmd->add_subcommand(
    "apply", "Create what is missing; running it twice changes nothing");
  auto dry_run = std::make_shared<bool>(false);
  auto show_sql = std::make_shared<bool>(false);
  apply->add_flag("--dry-run", *dry_run, "Print the SQL and change nothing");
  apply->add_flag("--show-sql", *show_sql, "Print the SQL as well");
  apply->callback([&flags, &run, dry_run, show_sql] {
    run = [&flags, dry_run, show_sql] {
      return apply_schema(flags, *dry_run, *show_sql);
    };
  });
}

} // namespace leasehold::app
