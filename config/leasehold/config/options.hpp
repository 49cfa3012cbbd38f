// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/duration.hpp"

#include <csignal>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The configuration of the program: plain structs that hold checked values,
/// and one declaration of every option that a file may contain.
namespace leasehold::config {

struct retry_options {
  duration first = std::chrono::milliseconds{100};
  duration max = std::chrono::seconds{5};
  double jitter = 0.2;
};

struct stop_options {
  int signal = SIGTERM;
  duration grace = std::chrono::seconds{10};
};

enum class output_mode : std::uint8_t { prefix, inherit, file, discard };

/// How a unit of work is run. `{work}` in a word, a file name or a value of
/// the environment stands for the work ID; the program replaces it.
struct command {
  std::vector<std::string> argv;
  std::string directory;
  std::vector<std::pair<std::string, std::string>> environment;
  output_mode output = output_mode::prefix;
  std::string output_file;
  std::vector<int> retired_codes;
  std::vector<int> permanent_codes;
};

/// The file for the output of a unit of work. What a file name cannot hold of
/// an ID, and %, is percent-encoded, so that no two units share a file.
std::string output_file_of(const command& run, std::string_view work_id);

struct pool {
  std::string name;
  std::vector<std::string> work;
  std::uint32_t max_held = 0;
  duration ttl = std::chrono::seconds{30};
  duration renew = std::chrono::seconds{15};
  duration margin = std::chrono::milliseconds{500};
  retry_options retry;
  duration idle = std::chrono::seconds{1};
  duration rerun = std::chrono::seconds{1};
  duration backoff = std::chrono::seconds{1};
  duration cleanup = std::chrono::seconds{5};
  stop_options stop;
  command run;
  std::uint64_t max_state_bytes = 16u * 1024 * 1024;
};

enum class schema_policy : std::uint8_t { check, apply, off };

struct store_options {
  std::string url;
  std::string table = "leasehold_leases";
  schema_policy schema = schema_policy::check;
  std::uint32_t sessions = 2;
  duration timeout = std::chrono::seconds{3};
};

enum class log_level : std::uint8_t { error, warning, info, debug };

enum class log_format : std::uint8_t { automatic, text, json };

struct log_options {
  log_level level = log_level::info;
  log_format format = log_format::automatic;
};

/// A whole file, checked.
struct file {
  /// Empty: the program makes one of host, process and chance.
  std::string node_holder;
  store_options store;
  std::vector<pool> pools;
  log_options log;
};

/// What an option's value looks like.
enum class option_kind : std::uint8_t {
  text,
  /// As text, but never shown.
  secret,
  duration,
  count,
  /// A number from 0 to 1.
  ratio,
  size,
  choice,
  signal,
  /// A list of texts.
  words,
  /// A list of exit codes.
  codes,
  /// A map of names to texts.
  variables,
  /// One of a choice, or `file: PATH`.
  output,
};

/// One option, declared once: validation, defaults, suggestions and help all
/// come from here.
struct option {
  /// `[]` stands for an element of a list: "pools[].run.command".
  std::string_view path;
  option_kind kind;
  /// As it would stand in a file; empty if there is none.
  std::string_view standard;
  /// Smallest and greatest value of durations, counts and sizes; for a choice,
  /// the words it is made of, separated by blanks.
  std::string_view bounds;
  /// One sentence.
  std::string_view help;
  /// A value that is valid.
  std::string_view example;
};

/// All options, in the order of a well-arranged file. Options under `defaults`
/// are declared once more under `pools[]`, where they override.
std::span<const option> all_options();

/// The declaration of a path, or null.
const option* find_option(std::string_view path);

/// Keys that other versions of the program may have and this one has not.
std::span<const std::string_view> keys_of_other_versions();

} // namespace leasehold::config
