// SPDX-License-Identifier: Apache-2.0
#include "leasehold/config/internal/reader.hpp"

#include "leasehold/identifier.hpp"
#include "leasehold/nearest.hpp"

#include <yaml-cpp/depthguard.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <utility>

namespace leasehold::config::internal {

namespace {

// yaml-cpp reads nested structures by recursion.
constexpr int max_depth = 32;

std::string_view describe(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return "a single value";
    case YAML::NodeType::Sequence:
      return "a list";
    case YAML::NodeType::Map:
      return "a map";
    default:
      return "nothing";
  }
}

std::string_view expected(option_kind kind) {
  switch (kind) {
    case option_kind::duration:
      return duration_hint;
    case option_kind::count:
      return "a whole number";
    case option_kind::ratio:
      return "a number from 0 to 1, such as 0.2";
    case option_kind::size:
      return "a size such as 4096, 64KiB or 16MiB";
    case option_kind::words:
      return "a list such as [one, two]";
    case option_kind::codes:
      return "a list of exit codes such as [10, 11]";
    case option_kind::variables:
      return "a map such as {MODE: batch}";
    default:
      return "a text";
  }
}

std::vector<std::string> split(std::string_view words) {
  std::istringstream in{std::string{words}};
  std::vector<std::string> result;
  for (std::string word; in >> word;)
    result.push_back(word);
  return result;
}

std::string joined(const std::vector<std::string>& words) {
  std::string result;
  for (auto& word : words)
    result += (result.empty() ? "" : ", ") + word;
  return result;
}

// The keys that may stand below `path`, "" being the root.
std::vector<std::string> keys_below(const std::string& path) {
  std::set<std::string> result;
  auto prefix = path.empty() ? path : path + ".";
  for (auto& decl : all_options()) {
    if (!decl.path.starts_with(prefix))
      continue;
    auto rest = decl.path.substr(prefix.size());
    auto key = rest.substr(0, rest.find('.'));
    if (key.ends_with("[]"))
      key.remove_suffix(2);
    result.emplace(key);
  }
  return {result.begin(), result.end()};
}

std::string in_words(const std::string& path) {
  return path.empty() ? std::string{"the file"} : path;
}

bool is_plain(const YAML::Node& node) {
  return node.Tag() == "?";
}

std::optional<std::uint64_t> decimal(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text.front() == '0'))
    return std::nullopt;
  std::uint64_t result = 0;
  auto [end, err]
    = std::from_chars(text.data(), text.data() + text.size(), result);
  if (err != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return result;
}

// A problem with the bytes that YAML itself would explain badly, or nothing.
std::optional<problem> byte_problem(std::string_view text) {
  problem result;
  if (text.size() > max_file_bytes) {
    result.text = "the file is larger than 4 MiB";
    return result;
  }
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    result.line = result.column = 1;
    result.text = "the file is UTF-16; save it as UTF-8";
    return result;
  }
  int line = 1;
  int column = 1;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto c = text[i];
    if (c == '\0') {
      result.text = "a NUL byte; is this a text file?";
    } else if ((c == '[' || c == '{') && ++depth > 100) {
      result.text = "brackets are nested too deeply";
    } else if (c == '\t'
               && text.substr(0, i).find_last_not_of(" \t")
                    == text.substr(0, i).rfind('\n')) {
      result.text = "a tab; indent with blanks";
    }
    if (!result.text.empty()) {
      result.line = line;
      result.column = column;
      return result;
    }
    if (c == ']' || c == '}')
      --depth;
    ++column;
    if (c == '\n') {
      ++line;
      column = 1;
    }
  }
  auto rest = text;
  // identifier_problem knows UTF-8; it takes 512 bytes at a time.
  line = 1;
  while (!rest.empty()) {
    auto end = std::min(rest.find('\n'), rest.size());
    auto part = rest.substr(0, end);
    while (!part.empty()) {
      auto size = std::min<std::size_t>(part.size(), max_identifier_bytes);
      // Do not cut a character in two.
      while (size < part.size() && size > 0
             && (static_cast<unsigned char>(part[size]) & 0xC0) == 0x80)
        --size;
      if (size == 0 || !identifier_problem(part.substr(0, size)).empty()) {
        result.line = line;
        result.column = 1;
        result.text = "bytes that are not UTF-8; is this a text file?";
        return result;
      }
      part.remove_prefix(size);
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++line;
  }
  return std::nullopt;
}

} // namespace

place place_of(const YAML::Node& node) {
  auto mark = node.Mark();
  return {mark.line + 1, mark.column + 1};
}

std::string_view last_part(std::string_view path) {
  auto dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

void reader::error(place where, std::string text) {
  problems_.push_back(
    {severity::error, where.line, where.column, std::move(text)});
}

void reader::warning(place where, std::string text) {
  problems_.push_back(
    {severity::warning, where.line, where.column, std::move(text)});
}

document reader::read(std::string_view text) {
  document result;
  if (auto bad = byte_problem(text)) {
    problems_.push_back(*bad);
    return result;
  }
  try {
    auto documents = YAML::LoadAll(std::string{text});
    if (documents.empty() || documents[0].IsNull()) {
      error({1, 1}, "the file is empty; it needs at least `version: 1`");
      return result;
    }
    if (documents.size() > 1)
      error(place_of(documents[1]),
            "a second document; a configuration is one document");
    read_map(documents[0], "", result.root, result);
    if (documents[0].IsMap() && !result.root.contains("version"))
      error({1, 1}, "version is missing; write `version: 1`");
  } catch (const YAML::DeepRecursion& x) {
    error({x.mark.line + 1, x.mark.column + 1}, "values are nested too deeply");
  } catch (const YAML::Exception& x) {
    error({x.mark.line + 1, x.mark.column + 1}, "not YAML: " + x.msg);
  }
  return result;
}

std::string reader::key_of(std::string_view path) {
  constexpr std::string_view of_pool = "pools[].";
  if (path.starts_with(of_pool))
    path.remove_prefix(of_pool.size());
  return std::string{path};
}

void reader::note_mistake(std::string_view path, place where, entries& into) {
  into.emplace(key_of(path), entry{where, mistake{}, {}});
}

void reader::read_map(const YAML::Node& node, const std::string& path,
                      entries& into, document& whole) {
  if (std::count(path.begin(), path.end(), '.') > max_depth)
    return;
  if (!node.IsMap()) {
    error(place_of(node), in_words(path) + " must be a map of keys, not "
                            + std::string{describe(node)});
    if (!path.empty())
      note_mistake(path, place_of(node), into);
    return;
  }
  auto keys = keys_below(path);
  std::set<std::string> seen;
  for (const auto& pair : node) {
    auto where = place_of(pair.first);
    if (!pair.first.IsScalar()) {
      error(where, "a key of " + in_words(path) + " must be a text");
      continue;
    }
    auto key = pair.first.Scalar();
    auto full = path.empty() ? key : path + "." + key;
    if (!seen.insert(key).second) {
      error(where,
            "key " + printable(key) + " stands twice in " + in_words(path));
      continue;
    }
    auto later = keys_of_other_versions();
    if (std::find(later.begin(), later.end(), full) != later.end()) {
      error(where, "key " + printable(key)
                     + " is not available in this version; remove it");
      continue;
    }
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      auto text = "unknown key " + printable(key) + " in " + in_words(path);
      if (auto near = nearest(keys, key); !near.empty()) {
        text += "; did you mean \"" + near + "\"?";
        note_mistake(path.empty() ? near : path + "." + near, where, into);
      } else {
        text += "; it may have: " + joined(keys);
      }
      error(where, std::move(text));
      continue;
    }
    if (full == "pools")
      read_pools(pair.second, whole);
    else if (auto* decl = find_option(full))
      read_option(pair.second, *decl, into);
    else
      read_map(pair.second, full, into, whole);
  }
}

void reader::read_pools(const YAML::Node& node, document& whole) {
  if (!node.IsSequence()) {
    error(place_of(node),
          "pools must be a list, not " + std::string{describe(node)});
    note_mistake("pools", place_of(node), whole.root);
    return;
  }
  for (const auto& item : node) {
    if (!item.IsMap()) {
      error(place_of(item),
            "a pool must be a map of keys, not " + std::string{describe(item)});
      note_mistake("pools", place_of(item), whole.root);
      continue;
    }
    pool_entries pool;
    pool.where = place_of(item);
    read_map(item, "pools[]", pool.values, whole);
    whole.pools.push_back(std::move(pool));
  }
}

void reader::read_option(const YAML::Node& node, const option& decl,
                         entries& into) {
  entry result;
  result.where = place_of(node);
  auto got = parse(node, decl, result);
  // A mistake, too, is remembered: what is wrong is not missing as well.
  if (got)
    result.what = std::move(*got);
  into.insert_or_assign(key_of(decl.path), std::move(result));
}

std::optional<value> reader::parse(const YAML::Node& node, const option& decl,
                                   entry& into) {
  switch (decl.kind) {
    case option_kind::words:
    case option_kind::codes:
      return parse_list(node, decl, into);
    case option_kind::variables:
      return parse_variables(node);
    case option_kind::output:
      if (node.IsMap() && node.size() == 1
          && node.begin()->first.Scalar() == "file"
          && node.begin()->second.IsScalar()) {
        if (auto path = expand(node.begin()->second))
          return value{"file:" + *path};
        return std::nullopt;
      }
      [[fallthrough]];
    default:
      break;
  }
  if (!node.IsScalar()) {
    error(place_of(node), std::string{decl.path} + " must be "
                            + std::string{expected(decl.kind)} + ", not "
                            + std::string{describe(node)});
    return std::nullopt;
  }
  return parse_scalar(node, decl);
}

std::optional<value> reader::parse_scalar(const YAML::Node& node,
                                          const option& decl) {
  auto text = expand(node);
  if (!text)
    return std::nullopt;
  auto where = place_of(node);
  // What the file says, not what it stands for: that may be a secret.
  auto shown = decl.kind == option_kind::secret ? std::string{"***"}
                                                : printable(node.Scalar());
  auto bad = [&](std::string reason) {
    error(where, std::string{decl.path} + " " + shown + ": " + reason);
    return std::nullopt;
  };
  auto bounds = split(decl.bounds);
  switch (decl.kind) {
    case option_kind::duration: {
      auto got = parse_duration(*text);
      if (!got && decimal(*text))
        return bad("needs a unit, as in " + *text + "s");
      if (!got)
        return bad("expected " + std::string{duration_hint} + ", from "
                   + bounds[0] + " to " + bounds[1]);
      if (*got < *parse_duration(bounds[0])
          || *got > *parse_duration(bounds[1]))
        return bad("must be from " + bounds[0] + " to " + bounds[1]);
      return value{*got};
    }
    case option_kind::count:
      return parse_count(node, decl, *text);
    case option_kind::size: {
      auto got = parse_size(*text);
      if (!got)
        return bad("expected " + std::string{expected(decl.kind)} + ", from "
                   + bounds[0] + " to " + bounds[1]);
      if (*got < *parse_size(bounds[0]) || *got > *parse_size(bounds[1]))
        return bad("must be from " + bounds[0] + " to " + bounds[1]);
      return value{*got};
    }
    case option_kind::ratio: {
      auto digits = text->find_first_not_of("0123456789.");
      auto dots = std::count(text->begin(), text->end(), '.');
      if (text->empty() || digits != std::string::npos || dots > 1
          || *text == ".")
        return bad("expected " + std::string{expected(decl.kind)});
      auto got = std::stod(*text);
      if (got > 1)
        return bad("must be from 0 to 1");
      return value{got};
    }
    case option_kind::signal: {
      auto name = text->starts_with("SIG") ? text->substr(3) : *text;
      if (std::find(bounds.begin(), bounds.end(), name) == bounds.end())
        return bad("expected one of " + joined(bounds));
      return value{name};
    }
    case option_kind::output:
    case option_kind::choice:
      if (std::find(bounds.begin(), bounds.end(), *text) == bounds.end())
        return bad(
          "expected one of " + joined(bounds)
          + (decl.kind == option_kind::output ? ", or {file: PATH}" : ""));
      return value{std::move(*text)};
    default:
      if (text->empty())
        return bad("must not be empty");
      return value{std::move(*text)};
  }
}

std::optional<value> reader::parse_count(const YAML::Node& node,
                                         const option& decl,
                                         std::string_view text) {
  auto where = place_of(node);
  auto shown = printable(node.Scalar());
  auto bounds = split(decl.bounds);
  auto got = decimal(text);
  if (!is_plain(node)) {
    error(where, std::string{decl.path} + " " + shown
                   + ": expected a whole number without quotes");
    return std::nullopt;
  }
  if (!got) {
    error(where, std::string{decl.path} + " " + shown
                   + ": expected a whole number in plain decimal digits "
                     "without leading zeros");
    return std::nullopt;
  }
  if (*got < *decimal(bounds[0]) || *got > *decimal(bounds[1])) {
    auto range = bounds[0] == bounds[1]
                   ? "must be " + bounds[0]
                   : "must be from " + bounds[0] + " to " + bounds[1];
    error(where, std::string{decl.path} + " " + shown + ": " + range);
    return std::nullopt;
  }
  return value{*got};
}

std::optional<value> reader::parse_list(const YAML::Node& node,
                                        const option& decl, entry& into) {
  if (!node.IsSequence()) {
    error(place_of(node), std::string{decl.path} + " must be "
                            + std::string{expected(decl.kind)} + ", not "
                            + std::string{describe(node)});
    return std::nullopt;
  }
  std::vector<std::string> texts;
  std::vector<int> codes;
  auto good = true;
  for (const auto& item : node) {
    auto where = place_of(item);
    if (!item.IsScalar()) {
      error(where, "an element of " + std::string{decl.path}
                     + " must be a single value, not "
                     + std::string{describe(item)});
      good = false;
      continue;
    }
    auto text = expand(item);
    if (!text) {
      good = false;
      continue;
    }
    if (decl.kind == option_kind::codes) {
      auto code = decimal(*text);
      if (!code || *code < 1 || *code > 255) {
        error(where, std::string{decl.path} + " " + printable(item.Scalar())
                       + ": expected an exit code from 1 to 255");
        good = false;
        continue;
      }
      codes.push_back(static_cast<int>(*code));
    } else {
      texts.push_back(std::move(*text));
      into.elements.push_back(where);
    }
  }
  if (!good)
    return std::nullopt;
  if (decl.kind == option_kind::codes)
    return value{std::move(codes)};
  return value{std::move(texts)};
}

std::optional<value> reader::parse_variables(const YAML::Node& node) {
  if (!node.IsMap()) {
    error(place_of(node), "pools[].run.environment must be "
                            + std::string{expected(option_kind::variables)}
                            + ", not " + std::string{describe(node)});
    return std::nullopt;
  }
  std::vector<std::pair<std::string, std::string>> result;
  std::set<std::string> seen;
  auto good = true;
  for (const auto& pair : node) {
    auto where = place_of(pair.first);
    auto name = pair.first.IsScalar() ? pair.first.Scalar() : std::string{};
    if (name.empty() || name.find('=') != std::string::npos) {
      error(where, "the name of a variable must be a text without =");
      good = false;
    } else if (name.starts_with("LEASEHOLD_")) {
      error(where, "variable " + printable(name)
                     + ": names that start with LEASEHOLD_ are set by "
                       "leasehold alone; choose another");
      good = false;
    } else if (!seen.insert(name).second) {
      error(where, "variable " + printable(name) + " stands there twice");
      good = false;
    } else if (!pair.second.IsScalar()) {
      error(place_of(pair.second), "variable " + printable(name)
                                     + " must be a single value, not "
                                     + std::string{describe(pair.second)});
      good = false;
    } else if (auto text = expand(pair.second)) {
      result.emplace_back(name, std::move(*text));
    } else {
      good = false;
    }
  }
  if (!good)
    return std::nullopt;
  return value{std::move(result)};
}

std::optional<std::string> reader::expand(const YAML::Node& node) {
  auto text = node.Scalar();
  std::string result;
  std::string_view rest = text;
  while (!rest.empty()) {
    auto dollar = rest.find('$');
    result += rest.substr(0, dollar);
    if (dollar == std::string_view::npos)
      break;
    rest.remove_prefix(dollar);
    if (rest.starts_with("$$")) {
      result += '$';
      rest.remove_prefix(2);
      continue;
    }
    if (!rest.starts_with("${")) {
      result += '$';
      rest.remove_prefix(1);
      continue;
    }
    auto close = rest.find('}');
    if (close == std::string_view::npos) {
      error(place_of(node), "${ without } (write $$ for a plain dollar)");
      return std::nullopt;
    }
    auto inside = rest.substr(2, close - 2);
    rest.remove_prefix(close + 1);
    auto split_at = inside.find(":-");
    std::string name{inside.substr(0, split_at)};
    auto found = env_(name);
    if (found && (!found->empty() || split_at == std::string_view::npos)) {
      result += *found;
    } else if (split_at != std::string_view::npos) {
      result += inside.substr(split_at + 2);
    } else {
      error(place_of(node), "variable " + printable(name)
                              + " is not set; set it, or give a default as in "
                                "${"
                              + name + ":-value}");
      return std::nullopt;
    }
  }
  return result;
}

} // namespace leasehold::config::internal
