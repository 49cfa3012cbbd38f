// SPDX-License-Identifier: Apache-2.0
#include "leasehold/command/command.hpp"
#include "leasehold/command/common.hpp"
#include "leasehold/exit_code.hpp"
#include "leasehold/nearest.hpp"

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
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

// A file or a socket that got the number of a closed standard stream would
// receive what is meant for that stream. Opened the wrong way round, input and
// output still fail as closed ones do: data that go nowhere are no success.
void open_standard_streams() {
  constexpr int modes[] = {O_WRONLY, O_RDONLY, O_RDWR};
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd)
      std::_Exit(exit_code::bug);
}

std::vector<std::string> names_of(const std::vector<CLI::App*>& commands) {
  std::vector<std::string> result;
  for (auto* cmd : commands)
    result.push_back(cmd->get_name());
  return result;
}

/// What the words of a command line name, as far as the program knows them.
struct reading {
  CLI::App* command = nullptr;
  /// "schema "; empty in front of the first command.
  std::string path;
  /// The first word that should be a command and is none.
  std::string unknown_command;
  /// The first unknown option.
  std::string unknown_option;
};

CLI::Option* find_option(const reading& at, const std::string& name) {
  for (auto* cmd = at.command; cmd != nullptr; cmd = cmd->get_parent())
    if (auto* found = cmd->get_option_no_throw(name))
      return found;
  return nullptr;
}

reading read_words(CLI::App& app, const std::vector<std::string>& words) {
  reading result;
  result.command = &app;
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto& word = words[i];
    if (word == "--")
      break;
    if (word.size() > 1 && word.front() == '-') {
      auto name
        = word[1] == '-' ? word.substr(0, word.find('=')) : word.substr(0, 2);
      auto* option = find_option(result, name);
      if (option == nullptr) {
        result.unknown_option = word[1] == '-' ? name : word;
        break;
      }
      if (option->get_items_expected_max() > 0 && name == word)
        ++i; // its value
      continue;
    }
    auto commands = result.command->get_subcommands({});
    if (commands.empty())
      continue;
    auto next
      = std::find_if(commands.begin(), commands.end(), [&](auto* command) {
          return command->get_name() == word;
        });
    if (next == commands.end()) {
      result.unknown_command = word;
      break;
    }
    result.command = *next;
    result.path += word + ' ';
  }
  return result;
}

std::vector<std::string> option_names(const reading& at) {
  std::vector<std::string> result;
  for (auto* cmd = at.command; cmd != nullptr; cmd = cmd->get_parent())
    for (auto* option : cmd->get_options())
      for (auto& name : option->get_lnames())
        result.push_back("--" + name);
  return result;
}

std::string did_you_mean(const std::vector<std::string>& known,
                         const std::string& typed,
                         const std::string& otherwise) {
  auto near = nearest(known, typed);
  return near.empty() ? otherwise : fmt::format("did you mean \"{}\"?", near);
}

// CLI11 reports both as a missing or a surplus argument.
std::string explain_mistake(CLI::App& app,
                            const std::vector<std::string>& words,
                            const CLI::ParseError& err) {
  auto at = read_words(app, words);
  auto hint = fmt::format("see leasehold {}--help", at.path);
  if (!at.unknown_option.empty()) {
    if (at.unknown_option.starts_with("--"))
      hint = did_you_mean(option_names(at), at.unknown_option, hint);
    else if (at.command != &app)
      hint = fmt::format("if that is no option, write: leasehold {}-- {}",
                         at.path, at.unknown_option);
    return fmt::format("there is no option \"{}\"; {}", at.unknown_option,
                       hint);
  }
  auto commands = names_of(at.command->get_subcommands({}));
  if (!at.unknown_command.empty())
    return fmt::format("there is no command \"{}{}\"; {}", at.path,
                       at.unknown_command,
                       did_you_mean(commands, at.unknown_command, hint));
  if (!commands.empty() && at.command != &app)
    return fmt::format("{}needs one of {}; {}", at.path,
                       fmt::join(commands, ", "), hint);
  std::string text = err.what();
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return fmt::format("{}; {}", text, hint);
}

// Options of all commands stand in the main help only.
void point_to_main_help(CLI::App& app) {
  for (auto* cmd : app.get_subcommands({})) {
    auto text = cmd->get_footer();
    cmd->footer(text + (text.empty() ? "" : "\n\n")
                + "Options of all commands, such as --store and --output: "
                  "leasehold --help");
    point_to_main_help(*cmd);
  }
}

int run_program(int argc, char** argv) {
  CLI::App app{"leasehold runs work under leases and hands its progress over",
               "leasehold"};
  app.set_version_flag("-V,--version", "leasehold " LEASEHOLD_VERSION);
  app.fallthrough();
  app.require_subcommand(0, 1);
  globals flags;
  app
    .add_option("-s,--store", flags.store,
                "postgresql://..., mysql://..., sqlite:///... or memory:")
    ->envname("LEASEHOLD_STORE");
  app.add_option("-c,--config", flags.config, "Configuration file (YAML)")
    ->envname("LEASEHOLD_CONFIG");
  app
    .add_option("-o,--output", flags.output,
                "table, wide, json, ndjson or name")
    ->envname("LEASEHOLD_OUTPUT")
    ->check(CLI::IsMember({"table", "wide", "json", "ndjson", "name"}));
  app.add_option("--timeout", flags.timeout,
                 "Longest wait for the store; if left out that of the file, "
                 "or 5s. For checkpoint, longest wait for its runner, or 30s");
  app.add_option("--log-format", flags.log_format, "text or json")
    ->envname("LEASEHOLD_LOG_FORMAT")
    ->check(CLI::IsMember({"text", "json"}));
  app.add_flag("--no-headers", flags.no_headers, "Tables without headers");
  auto* verbose
    = app.add_flag("-v,--verbose", flags.verbose, "Log every renewal");
  app.add_flag("-q,--quiet", flags.quiet, "Say only what went wrong")
    ->excludes(verbose);
  chosen run;
  add_pool(app, flags, run);
  add_checkpoint(app, flags, run);
  add_list(app, flags, run);
  add_show(app, flags, run);
  add_schema(app, flags, run);
  add_config(app, flags, run);
  point_to_main_help(app);
  std::vector<std::string> words{argv + 1, argv + argc};
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  try {
    app.parse(std::vector<std::string>{words.rbegin(), words.rend()});
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return exit_code::ok;
  } catch (const CLI::CallForVersion& x) {
    print(std::string{x.what()} + '\n');
    return exit_code::ok;
  } catch (const CLI::ParseError& x) {
    complain(explain_mistake(app, words, x));
    return exit_code::usage;
  }
  if (!run) {
    print(introduction);
    return exit_code::ok;
  }
  return run();
}

} // namespace

} // namespace leasehold::app

int main(int argc, char** argv) {
  using namespace leasehold::app;
  open_standard_streams();
  // A reader that went away (| head) ends the output, not with a message.
  std::signal(SIGPIPE, SIG_DFL);
  try {
    return finish_output(run_program(argc, argv));
  } catch (const std::exception& x) {
    complain(x.what());
    return exit_code::bug;
  }
}
