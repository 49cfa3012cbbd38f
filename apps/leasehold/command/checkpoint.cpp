// SPDX-License-Identifier: Apache-2.0
#include "leasehold/command/command.hpp"
#include "leasehold/command/common.hpp"
#include "leasehold/exit_code.hpp"
#include "leasehold/identifier.hpp"
#include "leasehold/process/checkpoint_client.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <iostream>

namespace leasehold::app {

namespace {

using process::checkpoint_client;
using process::checkpoint_result;

int refused(const checkpoint_result& got) {
  complain(fmt::format("checkpoint: {}", got.message));
  return got.exit_code;
}

// No pool may take more; what this one takes, its runner knows and says.
constexpr std::size_t largest_state = 512u * 1024 * 1024;

int put() {
  auto state = process::read_state(std::cin, largest_state);
  if (!state) {
    complain(fmt::format("checkpoint: the state on standard input is larger "
                         "than {} bytes; store less, or a reference to it",
                         largest_state));
    return exit_code::bad_data;
  }
  auto got = checkpoint_client::from_environment().put(std::move(*state));
  return got.ok() ? exit_code::ok : refused(got);
}

int get() {
  auto got = checkpoint_client::from_environment().get();
  if (!got.ok())
    return refused(got);
  if (!got.state)
    return exit_code::no;
  print(*got.state);
  return exit_code::ok;
}

int window() {
  auto got = checkpoint_client::from_environment().window();
  if (!got.ok())
    return refused(got);
  print(fmt::format("{:.3f}\n",
                    static_cast<double>(got.window_left.count()) / 1e6));
  return got.stop_requested ? exit_code::no : exit_code::ok;
}

} // namespace

void add_checkpoint(CLI::App& app, globals&, chosen& run) {
  auto* cmd = app.add_subcommand(
    "checkpoint", "Read or store progress, from inside a command that runs "
                  "under a lease");
  cmd->group("Work");
  cmd->require_subcommand(1);
  cmd->footer("Example, in a worker script:\n"
              "  echo \"$line $count\" | leasehold checkpoint put\n\n"
              "Talks to its runner through LEASEHOLD_SOCKET. Exits 0 when "
              "stored, 79 when the lease\nis lost, 69 when the store did not "
              "answer, 65 when the state is too large.");
  cmd->add_subcommand("put", "Store standard input and extend the lease")
    ->callback([&run] { run = put; });
  cmd
    ->add_subcommand("get",
                     "Print the last stored state; exits 1 if there is none")
    ->callback([&run] { run = get; });
  cmd
    ->add_subcommand("window", "Print the seconds left in the lease window; "
                               "exits 1 if the work should stop")
    ->callback([&run] { run = window; });
}

} // namespace leasehold::app
