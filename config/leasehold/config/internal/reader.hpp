// SPDX-License-Identifier: Apache-2.0
//
// From YAML nodes to typed values, by the declarations of options.hpp. Included
// by sources only.
#pragma once

#include "leasehold/config/load.hpp"

#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace leasehold::config::internal {

/// Where something stands in the file, from 1.
struct place {
  int line = 0;
  int column = 0;
};

/// A file of more bytes is no configuration.
inline constexpr std::size_t max_file_bytes = 4u * 1024 * 1024;

/// Of a value that is there but is wrong, which has been reported.
using mistake = std::monostate;

using value = std::variant<mistake, std::string, duration, std::uint64_t,
                           double, std::vector<std::string>, std::vector<int>,
                           std::vector<std::pair<std::string, std::string>>>;

struct entry {
  place where;
  value what;
  /// Of the elements of a list of texts.
  std::vector<place> elements;
};

/// The values that a file gives, by their path below `pools[]` or the root.
using entries = std::map<std::string, entry, std::less<>>;

struct pool_entries {
  place where;
  entries values;
};

/// A file taken apart, each value of the right kind and within its bounds.
struct document {
  entries root;
  std::vector<pool_entries> pools;
};

class reader {
public:
  reader(const environment& env, std::vector<problem>& problems)
    : env_(env), problems_(problems) {
    // nop
  }

  /// Does not throw; whatever is wrong becomes a problem.
  document read(std::string_view text);

  void error(place where, std::string text);

  void warning(place where, std::string text);

private:
  /// `path` as the key of its scope.
  static std::string key_of(std::string_view path);

  static void note_mistake(std::string_view path, place where, entries& into);

  void read_map(const YAML::Node& node, const std::string& path, entries& into,
                document& whole);

  void read_pools(const YAML::Node& node, document& whole);

  void read_option(const YAML::Node& node, const option& decl, entries& into);

  std::optional<value> parse(const YAML::Node& node, const option& decl,
                             entry& into);

  std::optional<value> parse_scalar(const YAML::Node& node, const option& decl);

  std::optional<value> parse_count(const YAML::Node& node, const option& decl,
                                   std::string_view text);

  std::optional<value> parse_list(const YAML::Node& node, const option& decl,
                                  entry& into);

  std::optional<value> parse_variables(const YAML::Node& node);

  /// The text of a scalar with its ${...} replaced.
  std::optional<std::string> expand(const YAML::Node& node);

  const environment& env_;
  std::vector<problem>& problems_;
};

place place_of(const YAML::Node& node);

/// "ttl" of "defaults.ttl".
std::string_view last_part(std::string_view path);

} // namespace leasehold::config::internal
