// SPDX-License-Identifier: Apache-2.0
#include "leasehold/config/options.hpp"

#include <algorithm>
#include <array>

namespace leasehold::config {

namespace {

using enum option_kind;

constexpr std::string_view any_duration = "0 36500d";
constexpr std::string_view pause = "1ms 36500d";

// Options that stand under `defaults` and under each pool.
#define LEASEHOLD_SHARED(prefix)                                               \
  option{prefix "ttl",                                                         \
         duration,                                                             \
         "30s",                                                                \
         "1ms 36500d",                                                         \
         "How long a crash may go unnoticed.",                                 \
         "20s"},                                                               \
    option{prefix "renew",                                                     \
           duration,                                                           \
           "",                                                                 \
           pause,                                                              \
           "Interval between renewals; ttl / 2 if left out.",                  \
           "5s"},                                                              \
    option{prefix "margin",                                                    \
           duration,                                                           \
           "",                                                                 \
           any_duration,                                                       \
           "Taken off the lease window for clocks that run at different "      \
           "rates; the smaller of 500ms and ttl / 20 if left out.",            \
           "100ms"},                                                           \
    option{prefix "retry.first",                                               \
           duration,                                                           \
           "100ms",                                                            \
           pause,                                                              \
           "First wait after a renewal that got no answer; it doubles.",       \
           "50ms"},                                                            \
    option{prefix "retry.max",                                                 \
           duration,                                                           \
           "5s",                                                               \
           pause,                                                              \
           "Longest wait between such renewals.",                              \
           "2s"},                                                              \
    option{prefix "retry.jitter",                                              \
           ratio,                                                              \
           "0.2",                                                              \
           "",                                                                 \
           "By how much, at most, such a wait is lengthened at random.",       \
           "0.1"},                                                             \
    option{prefix "idle",                                                      \
           duration,                                                           \
           "1s",                                                               \
           pause,                                                              \
           "Pause after finding work held by somebody else.",                  \
           "500ms"},                                                           \
    option{prefix "rerun",                                                     \
           duration,                                                           \
           "1s",                                                               \
           pause,                                                              \
           "Pause after success before the work runs again.",                  \
           "1h"},                                                              \
    option{prefix "backoff",         duration, "1s", pause,                    \
           "Pause after a failure.", "30s"},                                   \
    option{prefix "cleanup",                                                   \
           duration,                                                           \
           "5s",                                                               \
           pause,                                                              \
           "Time for the final checkpoint and the release.",                   \
           "3s"},                                                              \
    option{prefix "stop.signal",                                               \
           signal,                                                             \
           "TERM",                                                             \
           "TERM INT HUP QUIT USR1 USR2",                                      \
           "What a command gets first when it must stop.",                     \
           "INT"},                                                             \
    option {                                                                   \
    prefix "stop.grace", duration, "10s", any_duration,                        \
      "Time a command has to stop before it is killed; never beyond its "      \
      "lease.",                                                                \
      "2s"                                                                     \
  }

constexpr std::array options{
  option{"version", count, "", "1 1", "Version of this format.", "1"},
  option{"node.holder", text, "", "",
         "Who we are in the store; host, process and chance if left out.",
         "node-a"},
  option{
    "store.url", secret, "", "",
    "Where leases are kept: postgresql://, mysql://, sqlite:/// or memory:.",
    "sqlite:///var/lib/leasehold/leases.db"},
  option{"store.url-file", text, "", "",
         "A file that holds the URL, for URLs with a password.",
         "/run/secrets/store-url"},
  option{"store.table", text, "leasehold_leases", "",
         "The table; on PostgreSQL it may have a schema in front, on MySQL a "
         "database.",
         "ops.leases"},
  option{"store.schema", choice, "check", "check apply off",
         "Whether to look at the table at start, create it, or neither.",
         "apply"},
  option{"store.sessions", count, "2", "1 64",
         "Sessions for ordinary work; renewals have one of their own.", "4"},
  option{"store.timeout", duration, "3s", "100ms 10m",
         "Longest wait for one answer of the store.", "2s"},
  LEASEHOLD_SHARED("defaults."),
  option{"pools[].name", text, "", "", "Names the pool in logs.", "shards"},
  option{"pools[].work.list", words, "", "", "The units of work.", "[eu, us]"},
  option{"pools[].work.range", text, "", "",
         "The units of work as a pattern with one range; leading zeros are "
         "kept.",
         "shard-{0..15}"},
  option{"pools[].work.file", text, "", "",
         "A file with one unit of work a line, read at start; # starts a "
         "comment.",
         "/etc/leasehold/tenants"},
  option{"pools[].max-held", count, "0", "0 1000000",
         "How many units this process works on at once; 0 = all it gets.", "4"},
  LEASEHOLD_SHARED("pools[]."),
  option{"pools[].run.command", words, "", "",
         "The program and its arguments; {work} is the unit of work. No shell "
         "is involved.",
         "[/bin/echo, \"{work}\"]"},
  option{"pools[].run.directory", text, "", "",
         "Working directory of the command.", "/var/lib/shards"},
  option{"pools[].run.environment", variables, "", "",
         "Variables for the command, beside the inherited ones; those that "
         "start with LEASEHOLD_ are set by leasehold alone.",
         "{MODE: batch}"},
  option{
    "pools[].run.output", output, "prefix", "prefix inherit discard",
    "Where the command's output goes: prefix, inherit, discard, or {file: "
    "PATH}; {work} in PATH is the unit of work, and must be there if there "
    "are several.",
    "discard"},
  option{"pools[].run.exit-codes.retired", codes, "", "",
         "Exit codes that mean: done for good.", "[10]"},
  option{"pools[].run.exit-codes.permanent", codes, "", "",
         "Exit codes that mean: no further attempt will help.", "[11, 12]"},
  option{"pools[].checkpoint.max-size", size, "16MiB", "1 512MiB",
         "Larger checkpoints are refused.", "1MiB"},
  option{"log.level", choice, "info", "error warning info debug",
         "How much is logged.", "debug"},
  option{"log.format", choice, "auto", "auto text json",
         "Lines for people or for programs; auto is text on a terminal.",
         "json"},
};

#undef LEASEHOLD_SHARED

constexpr std::array<std::string_view, 18> later{
  "elections",
  "sweep",
  "network",
  "http",
  "node.labels",
  "log.events",
  "pools[].spread",
  "pools[].progress",
  "pools[].quarantine",
  "pools[].prefer",
  "pools[].require",
  "pools[].run.user",
  "pools[].checkpoint.min-interval",
  "pools[].work.query",
  "pools[].work.command",
  "pools[].work.every",
  "pools[].run.shell",
  "store.partitions"};

} // namespace

std::string output_file_of(const command& run, std::string_view work_id) {
  constexpr std::string_view mark = "{work}";
  constexpr std::string_view hex = "0123456789ABCDEF";
  // These are names of folders.
  auto whole = work_id == "." || work_id == "..";
  std::string name;
  for (auto c : work_id) {
    auto byte = static_cast<unsigned char>(c);
    if (whole || c == '/' || c == '%' || byte < 0x20 || byte == 0x7F) {
      name += '%';
      name += hex[byte >> 4];
      name += hex[byte & 0xF];
    } else {
      name += c;
    }
  }
  auto result = run.output_file;
  for (auto at = result.find(mark); at != std::string::npos;
       at = result.find(mark, at + name.size()))
    result.replace(at, mark.size(), name);
  return result;
}

std::span<const option> all_options() {
  return options;
}

const option* find_option(std::string_view path) {
  auto pos = std::find_if(options.begin(), options.end(),
                          [&](auto& x) { return x.path == path; });
  return pos == options.end() ? nullptr : &*pos;
}

std::span<const std::string_view> keys_of_other_versions() {
  return later;
}

} // namespace leasehold::config
