// SPDX-License-Identifier: Apache-2.0
#include "leasehold/command/common.hpp"

#include "leasehold/exit_code.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace leasehold::app {

namespace {

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

void complain(std::string_view text) {
  fmt::print(stderr, "leasehold: {}\n", text);
}

std::optional<config::file> load_config(const globals& flags) {
  auto loaded = config::load_file(flags.config, from_environment);
  for (auto& problem : loaded.problems)
    fmt::print(stderr, "{}\n", config::to_string(problem, flags.config));
  if (!loaded.problems.empty())
    fmt::print(stderr, "{}\n", config::summary(loaded.problems));
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
    options.max_state_bytes
      = std::max(options.max_state_bytes,
                 static_cast<std::size_t>(pool.max_state_bytes));
  return parse_store(settings.store.url, options);
}

store_choice choose_store(const globals& flags) {
  auto timeout = parse_duration(flags.timeout);
  if (!timeout || *timeout <= duration::zero()) {
    complain(fmt::format("--timeout {}: expected {}", flags.timeout,
                         duration_hint));
    return {std::nullopt, exit_code::usage};
  }
  if (!flags.store.empty()) {
    backend::store_options options;
    options.timeout = *timeout;
    return parse_store(flags.store, options);
  }
  if (!flags.config.empty()) {
    auto settings = load_config(flags);
    if (!settings)
      return {std::nullopt, exit_code::bad_config};
    return open_store(*settings);
  }
  complain("which store? Name it with --store URL, with LEASEHOLD_STORE, or "
           "with --config FILE");
  return {std::nullopt, exit_code::usage};
}

int report(const backend::store_source& source, ec code, ec also,
           const std::string& detail) {
  complain(fmt::format("store {}: {}", source.display(),
                       detail.empty() ? std::string{explain(code)} : detail));
  return exit_code_of(code, also);
}

} // namespace leasehold::app
