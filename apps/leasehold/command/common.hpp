// SPDX-License-Identifier: Apache-2.0
//
// What several commands need: the store that flags, environment and file name,
// the configuration file, data on standard output, and messages in one style.
#pragma once

#include "leasehold/backend/open.hpp"
#include "leasehold/command/command.hpp"
#include "leasehold/config/load.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace leasehold::app {

/// Data, on standard output. A failure is kept for `finish_output`.
void print(std::string_view text);

/// Writes out what was printed. Returns `code`, or the code of a failure to
/// print, which it has reported.
int finish_output(int code);

/// For a process that goes on without anybody who reads its output: what stands
/// for a closed standard stream takes and gives nothing, without an error.
void do_without_closed_streams();

/// A line on standard error. Whether anybody can read it makes no difference to
/// what the program does, so failures are ignored.
void tell(std::string_view text);

/// "leasehold: TEXT" on standard error.
void complain(std::string_view text);

/// Reads and checks a configuration file and prints its problems. Nothing if it
/// has errors.
std::optional<config::file> load_config(const globals& flags);

/// The value of `--timeout`, or `otherwise` if it was not given. Nothing if it
/// is no good, which has been said.
std::optional<duration> timeout_of(const globals& flags, duration otherwise);

/// A store, or the exit code of the message that was printed.
struct store_choice {
  std::optional<backend::store_source> source;
  int exit_code = 0;
};

/// The store of `--store`, LEASEHOLD_STORE, or the configuration file.
store_choice choose_store(const globals& flags);

/// Opens the store that a configuration names.
store_choice open_store(const config::file& settings);

/// Prints a failure and returns its exit code.
int report(const backend::store_source& source, ec code, ec also,
           const std::string& detail);

} // namespace leasehold::app
