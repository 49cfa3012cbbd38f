// SPDX-License-Identifier: Apache-2.0
#include "leasehold/config/load.hpp"

#include "leasehold/config/internal/check.hpp"
#include "leasehold/config/internal/reader.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>

namespace leasehold::config {

namespace {

std::string counted(std::size_t n, const char* word) {
  return std::to_string(n) + " " + word + (n == 1 ? "" : "s");
}

} // namespace

std::string to_string(const problem& x, std::string_view file_name) {
  std::string result{file_name};
  if (x.line > 0)
    result += ":" + std::to_string(x.line) + ":" + std::to_string(x.column);
  result += x.level == severity::error ? ": error: " : ": warning: ";
  return result + x.text;
}

std::string summary(const std::vector<problem>& problems) {
  auto errors = static_cast<std::size_t>(
    std::count_if(problems.begin(), problems.end(),
                  [](auto& x) { return x.level == severity::error; }));
  auto warnings = problems.size() - errors;
  auto result = errors > 0 ? counted(errors, "error") : std::string{};
  if (warnings > 0)
    result += (errors > 0 ? ", " : "") + counted(warnings, "warning");
  return result;
}

bool load_result::ok() const noexcept {
  return std::none_of(problems.begin(), problems.end(),
                      [](auto& x) { return x.level == severity::error; });
}

load_result load_text(std::string_view text, const std::string& folder,
                      const environment& env) {
  load_result result;
  try {
    internal::reader reader{env, result.problems};
    auto document = reader.read(text);
    // A file that is no YAML at all has no values that could be checked.
    if (!document.root.empty() || !document.pools.empty())
      result.value = internal::check(document, folder, env, reader);
  } catch (const std::exception& x) {
    result.problems.push_back(
      {severity::error, 0, 0, std::string{"cannot be read: "} + x.what()});
  }
  std::stable_sort(
    result.problems.begin(), result.problems.end(), [](auto& a, auto& b) {
      return std::pair{a.line, a.column} < std::pair{b.line, b.column};
    });
  return result;
}

load_result load_file(const std::string& path, const environment& env) {
  std::string text;
  if (auto why = internal::read_text(path, internal::max_file_bytes, text);
      !why.empty()) {
    load_result result;
    result.problems.push_back(
      {severity::error, 0, 0, "cannot be read: " + why});
    return result;
  }
  auto slash = path.rfind('/');
  auto folder
    = slash == std::string::npos ? std::string{"."} : path.substr(0, slash + 1);
  return load_text(text, folder, env);
}

} // namespace leasehold::config
