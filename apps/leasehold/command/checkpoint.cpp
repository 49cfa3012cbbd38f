// SPDX-License-Identifier: Apache-2.0
#include "leasehold/command/command.hpp"
#include "leasehold/command/common.hpp"
#include "leasehold/exit_code.hpp"
#include "leasehold/identifier.hpp"
#include "leasehold/process/checkpoint_client.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace leasehold::app {

namespace {

using process::checkpoint_client;
using process::checkpoint_result;
using process::read_result;

// A runner waits for its store itself; this bounds one that stands still.
constexpr duration default_timeout = std::chrono::seconds{30};

// More than any pool takes.
constexpr std::size_t largest_state = 512u * 1024 * 1024;

int refused(const checkpoint_result& got) {
  complain(fmt::format("checkpoint: {}", got.message));
  return got.exit_code;
}

int too_large(std::size_t limit) {
  complain(fmt::format("checkpoint: the state on standard input is larger than "
                       "{} bytes, which is the limit; store less, or a "
                       "reference to it",
                       limit));
  return exit_code::bad_data;
}

int put(const checkpoint_client& runner, bool may_be_empty) {
  // Whoever writes without end, or for nobody, should hear of it soon.
  auto found = runner.window();
  if (!found.ok())
    return refused(found);
  std::string state;
  // A runner that was started before an upgrade does not say it.
  auto limit
    = found.max_state_bytes > 0 ? found.max_state_bytes : largest_state;
  auto end = process::read_state(STDIN_FILENO, limit, state);
  if (end == read_result::failed) {
    complain(fmt::format("checkpoint: standard input cannot be read: {}; what "
                         "was stored before stays",
                         std::strerror(errno)));
    return exit_code::io_failed;
  }
  if (end == read_result::over_limit)
    return too_large(limit);
  // More often than not whoever should have written it has failed.
  if (state.empty() && !may_be_empty) {
    complain("checkpoint: standard input is empty; what was stored before "
             "stays (to clear it: leasehold checkpoint put --empty)");
    return exit_code::bad_data;
  }
  auto got = runner.put(std::move(state));
  return got.ok() ? exit_code::ok : refused(got);
}

int get(const checkpoint_client& runner) {
  auto got = runner.get();
  if (!got.ok())
    return refused(got);
  if (!got.state)
    return exit_code::no;
  print(*got.state);
  // The next prompt belongs on a line of its own.
  if (isatty(STDOUT_FILENO) != 0 && !got.state->ends_with('\n'))
    print("\n");
  return exit_code::ok;
}

int window(const checkpoint_client& runner) {
  auto got = runner.window();
  if (!got.ok())
    return refused(got);
  print(fmt::format("{:.3f}\n",
                    static_cast<double>(got.window_left.count()) / 1e6));
  return got.stop_requested ? exit_code::no : exit_code::ok;
}

using action = std::function<int(const checkpoint_client&)>;

chosen with_runner(const globals& flags, action what) {
  return [&flags, what = std::move(what)]() -> int {
    auto timeout = timeout_of(flags, default_timeout);
    return timeout ? what(checkpoint_client::from_environment(*timeout))
                   : exit_code::usage;
  };
}

} // namespace

void add_checkpoint(CLI::App& app, globals& flags, chosen& run) {
  auto* cmd = app.add_subcommand(
    "checkpoint", "Read or store progress, from inside a command that runs "
                  "under a lease");
  cmd->group("Work");
  cmd->require_subcommand(1);
  cmd->footer(
    "Example, in a worker script:\n"
    "  echo \"$line $count\" | leasehold checkpoint put\n\n"
    "Talks to its runner through LEASEHOLD_SOCKET. Exits 0 when stored, 79 "
    "when the lease\nis lost or the run is over, 69 when the store or the "
    "runner did not answer, 65 when\nthe state is too large or empty, 74 when "
    "standard input cannot be read, 64 outside of\na run.\n\n"
    "A producer that fails in the middle looks like one that is done: write to "
    "a file, and\nput that file once it is complete.");
  auto empty = std::make_shared<bool>(false);
  auto* store
    = cmd->add_subcommand("put", "Store standard input and extend the lease");
  store->add_flag("--empty", *empty,
                  "Let an empty input clear what is stored; otherwise it is "
                  "refused");
  store->callback([&flags, &run, empty] {
    run = with_runner(flags,
                      [empty](auto& runner) { return put(runner, *empty); });
  });
  cmd
    ->add_subcommand("get",
                     "Print the last stored state; exits 1 if there is none")
    ->callback([&flags, &run] { run = with_runner(flags, get); });
  cmd
    ->add_subcommand("window", "Print the seconds left in the lease window; "
                               "exits 1 if the work should stop")
    ->callback([&flags, &run] { run = with_runner(flags, window); });
}

} // namespace leasehold::app
