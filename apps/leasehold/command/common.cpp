// SPDX-License-Identifier: Apache-2.0
#include "leasehold/command/common.hpp"

#include "leasehold/exit_code.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace leasehold::app {

namespace {

using namespace std::chrono_literals;

constexpr duration default_timeout = 5s;
// What a store takes.
constexpr duration shortest_timeout = 100ms;
constexpr duration longest_timeout = 10min;

// Of the first failure to write data; 0 for none.
int output_error = 0;

void flush_output() {
  if (std::fflush(stdout) != 0 && output_error == 0)
    output_error = errno;
}

std::optional<std::string> from_environment(const std::string& name) {
  if (auto* value = std::getenv(name.c_str()))
    return std::string{value};
  return std::nullopt;
}

store_choice parse_store(const std::string& url,
                         const backend::store_options& options) {
  auto parsed = backend::store_source::parse(url, options);
  if (auto* bad = std::get_if<backend::failure>(&parsed)) {
    complain(bad->detail);
    return {std::nullopt, exit_code::bad_config};
  }
  return {std::get<backend::store_source>(std::move(parsed)), 0};
}

} // namespace

void print(std::string_view text) {
  if (output_error == 0
      && std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    output_error = errno;
}

int finish_output(int code) {
  flush_output();
  if (output_error == 0)
    return code;
  complain(fmt::format("cannot write to standard output: {}",
                       std::strerror(output_error)));
  return exit_code::io_failed;
}

void do_without_closed_streams() {
  const std::pair<int, int> wrong[]
    = {{STDIN_FILENO, O_WRONLY}, {STDOUT_FILENO, O_RDONLY}};
  for (auto [fd, mode] : wrong) {
    if ((fcntl(fd, F_GETFL) & O_ACCMODE) != mode)
      continue;
    auto nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nothing, fd);
    close(nothing);
  }
}

void tell(std::string_view text) {
  // In the order in which it was said, where both streams end in one place.
  flush_output();
  auto line = std::string{text} + '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void complain(std::string_view text) {
  tell(fmt::format("leasehold: {}", text));
}

std::optional<config::file> load_config(const globals& flags) {
  auto loaded = config::load_file(flags.config, from_environment);
  for (auto& problem : loaded.problems)
    tell(config::to_string(problem, flags.config));
  if (!loaded.problems.empty())
    tell(config::summary(loaded.problems));
  if (!loaded.ok())
    return std::nullopt;
  return std::move(loaded.value);
}

store_choice open_store(const config::file& settings) {
  backend::store_options options;
  options.table = settings.store.table;
  options.timeout = settings.store.timeout;
  // Each pool checks its own, smaller, limit.
  for (auto& pool : settings.pools)
    options.max_state_bytes = std::max(
      options.max_state_bytes, static_cast<std::size_t>(pool.max_state_bytes));
  return parse_store(settings.store.url, options);
}

std::optional<duration> timeout_of(const globals& flags, duration otherwise) {
  if (flags.timeout.empty())
    return otherwise;
  auto result = parse_duration(flags.timeout);
  if (result && *result >= shortest_timeout && *result <= longest_timeout)
    return result;
  complain(fmt::format(
    "--timeout {}: expected {}, from {} to {}", flags.timeout, duration_hint,
    format_duration(shortest_timeout), format_duration(longest_timeout)));
  return std::nullopt;
}

store_choice choose_store(const globals& flags) {
  auto timeout = timeout_of(flags, default_timeout);
  if (!timeout)
    return {std::nullopt, exit_code::usage};
  if (!flags.store.empty()) {
    backend::store_options options;
    options.timeout = *timeout;
    return parse_store(flags.store, options);
  }
  if (!flags.config.empty()) {
    auto settings = load_config(flags);
    if (!settings)
      return {std::nullopt, exit_code::bad_config};
    if (!flags.timeout.empty())
      settings->store.timeout = *timeout;
    return open_store(*settings);
  }
  complain("which store? Name it with --store URL, with LEASEHOLD_STORE, or "
           "with --config FILE");
  return {std::nullopt, exit_code::usage};
}

int report(const backend::store_source& source, ec code, ec also,
           const std::string& detail) {
  constexpr std::string_view remedy = "leasehold schema apply";
  auto text = detail.empty() ? std::string{explain(code)} : detail;
  if (also == ec::schema_missing && text.find(remedy) == std::string::npos)
    text += fmt::format("{}create it with: {}",
                        text.find('\n') == std::string::npos ? "; " : "\n",
                        remedy);
  complain(fmt::format("store {}: {}", source.display(), text));
  return exit_code_of(code, also);
}

} // namespace leasehold::app
