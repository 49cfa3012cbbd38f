// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/config/options.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace leasehold::config {

enum class severity : std::uint8_t { error, warning };

/// Something wrong with a file. Never holds a secret. Of what came from the
/// environment or from another file only names are shown: of work, of a table,
/// of a scheme or parameter of a URL.
struct problem {
  severity level = severity::error;
  /// From 1; 0 if the problem has no place (a file that cannot be read).
  int line = 0;
  int column = 0;
  std::string text;
};

/// "leasehold.yaml:31:5: error: unknown key ...".
std::string to_string(const problem& x, std::string_view file_name);

/// "2 errors, 1 warning".
std::string summary(const std::vector<problem>& problems);

struct load_result {
  /// Complete only if there is no error among the problems.
  file value;

  /// All of them, in the order of the file.
  std::vector<problem> problems;

  bool ok() const noexcept;
};

/// Looks up an environment variable.
using environment
  = std::function<std::optional<std::string>(const std::string&)>;

/// Reads and checks a file, and the files it names. Does not throw.
load_result load_file(const std::string& path, const environment& env);

/// As load_file for text; `folder` is what relative paths start from.
load_result load_text(std::string_view text, const std::string& folder,
                      const environment& env);

} // namespace leasehold::config
