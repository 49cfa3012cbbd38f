// SPDX-License-Identifier: Apache-2.0
#include "leasehold/config/internal/check.hpp"

#include "leasehold/backend/open.hpp"
#include "leasehold/identifier.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

namespace leasehold::config::internal {

namespace {

using std::chrono::milliseconds;

// More units in one pool than this are a mistake in a range or a file.
constexpr std::uint64_t max_units = 1'000'000;

// A million units of ordinary length.
constexpr std::size_t max_work_file_bytes = 64u * 1024 * 1024;

// As in the declaration of store.timeout.
constexpr duration shortest_store_timeout = milliseconds{100};

// Of one part of a path, on all common file systems.
constexpr std::size_t max_file_name_bytes = 255;

constexpr std::pair<std::string_view, int> signals[]
  = {{"TERM", SIGTERM}, {"INT", SIGINT},   {"HUP", SIGHUP},
     {"QUIT", SIGQUIT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};

/// The values of one scope, with those of another behind them.
class view {
public:
  explicit view(const entries& values) : values_(values) {
    // nop
  }

  view(const entries& values, const entries& defaults)
    : values_(values), defaults_(&defaults) {
    // nop
  }

  /// The value of a key, if it is a good one.
  const entry* find(std::string_view key) const {
    auto* found = at(key);
    return found != nullptr && !std::holds_alternative<mistake>(found->what)
             ? found
             : nullptr;
  }

  /// Whether there was an attempt at a value, of the key or of what it is in.
  bool mistaken(std::string_view key) const {
    for (;;) {
      if (at(key) != nullptr && find(key) == nullptr)
        return true;
      auto dot = key.rfind('.');
      if (dot == std::string_view::npos)
        return false;
      key = key.substr(0, dot);
    }
  }

  template <class T>
  bool get(std::string_view key, T& into) const {
    auto* found = find(key);
    if (found == nullptr)
      return false;
    into = std::get<T>(found->what);
    return true;
  }

  std::uint64_t count(std::string_view key, std::uint64_t standard) const {
    get(key, standard);
    return standard;
  }

private:
  const entry* at(std::string_view key) const {
    if (auto pos = values_.find(key); pos != values_.end())
      return &pos->second;
    if (defaults_ == nullptr)
      return nullptr;
    auto pos = defaults_->find("defaults." + std::string{key});
    return pos == defaults_->end() ? nullptr : &pos->second;
  }

  const entries& values_;
  const entries* defaults_ = nullptr;
};

class checker {
public:
  checker(const document& doc, std::string folder, const environment& env,
          reader& report)
    : doc_(doc), folder_(std::move(folder)), env_(env), report_(report) {
    // nop
  }

  file run() {
    view root{doc_.root};
    read_node(root);
    read_store(root);
    read_log(root);
    if (doc_.pools.empty() && !root.mistaken("pools"))
      report_.error({1, 1}, "pools is missing or empty; there is nothing to "
                            "do");
    for (auto& pool : doc_.pools)
      read_pool(pool);
    return std::move(result_);
  }

private:
  std::string resolve(const std::string& path) const {
    return path.starts_with('/') ? path : folder_ + "/" + path;
  }

  void read_node(const view& root) {
    if (!root.get("node.holder", result_.node_holder))
      return;
    if (auto problem = identifier_problem(result_.node_holder);
        !problem.empty())
      report_.error(root.find("node.holder")->where,
                    "node.holder " + std::string{problem});
  }

  void read_store(const view& root) {
    auto& store = result_.store;
    auto has_url = root.get("store.url", store.url);
    std::string url_file;
    if (root.get("store.url-file", url_file)) {
      auto where = root.find("store.url-file")->where;
      if (has_url) {
        report_.error(where, "store.url and store.url-file are both there; "
                             "keep one");
      } else if (auto why
                 = read_text(resolve(url_file), max_file_bytes, store.url);
                 !why.empty()) {
        report_.error(where, "store.url-file cannot be read: " + why);
      } else {
        while (!store.url.empty()
               && (store.url.back() == '\n' || store.url.back() == '\r'))
          store.url.pop_back();
        if (store.url.empty())
          report_.error(where, "store.url-file is empty");
      }
    } else if (!has_url && !root.mistaken("store.url")
               && !root.mistaken("store.url-file")) {
      report_.error({1, 1}, "store.url is missing; for example "
                            "sqlite:///var/lib/leasehold/leases.db");
    }
    if (store.url.starts_with("memory:"))
      report_.warning(place_of_store(root),
                      "a memory: store ends with the process; nobody can take "
                      "over from it");
    root.get("store.table", store.table);
    root.get("store.timeout", store.timeout);
    store.sessions
      = static_cast<std::uint32_t>(root.count("store.sessions", 2));
    std::string policy;
    if (root.get("store.schema", policy))
      store.schema = policy == "apply" ? schema_policy::apply
                     : policy == "off" ? schema_policy::off
                                       : schema_policy::check;
    check_store(root);
  }

  // What the store itself would refuse when it is opened.
  void check_store(const view& root) {
    auto& store = result_.store;
    if (store.url.empty())
      return;
    backend::store_options options;
    options.timeout = store.timeout;
    auto by_url = backend::store_source::parse(store.url, options);
    if (auto* bad = std::get_if<backend::failure>(&by_url)) {
      report_.error(place_of_store(root), bad->detail);
      return;
    }
    auto* table = root.find("store.table");
    if (table == nullptr)
      return;
    options.table = store.table;
    auto by_both = backend::store_source::parse(store.url, options);
    if (auto* bad = std::get_if<backend::failure>(&by_both)) {
      report_.error(table->where, "store." + bad->detail);
      return;
    }
    auto& used = std::get<backend::store_source>(by_both).table();
    if (!used.empty() && used != store.table)
      report_.error(table->where, "store.table " + printable(store.table)
                                    + " and ?table=" + used
                                    + " in the URL name two tables; keep one");
  }

  place place_of_store(const view& root) const {
    auto* found = root.find("store.url");
    if (found == nullptr)
      found = root.find("store.url-file");
    return found == nullptr ? place{1, 1} : found->where;
  }

  void read_log(const view& root) {
    std::string word;
    if (root.get("log.level", word))
      result_.log.level = word == "error"     ? log_level::error
                          : word == "warning" ? log_level::warning
                          : word == "debug"   ? log_level::debug
                                              : log_level::info;
    if (root.get("log.format", word))
      result_.log.format = word == "text"   ? log_format::text
                           : word == "json" ? log_format::json
                                            : log_format::automatic;
  }

  void read_pool(const pool_entries& given) {
    view values{given.values, doc_.root};
    pool x;
    if (!values.get("name", x.name)) {
      if (!values.mistaken("name"))
        report_.error(given.where, "a pool needs a name");
      x.name = "?";
    } else if (!names_.insert(x.name).second) {
      report_.error(values.find("name")->where,
                    "two pools are named " + printable(x.name));
    }
    read_work(values, given.where, x);
    read_timing(values, given.where, x);
    read_run(values, given.where, x);
    x.max_held = static_cast<std::uint32_t>(values.count("max-held", 0));
    if (x.max_held > x.work.size() && !x.work.empty())
      report_.warning(values.find("max-held")->where,
                      "max-held " + std::to_string(x.max_held) + " but only "
                        + std::to_string(x.work.size())
                        + " units of work in pool " + printable(x.name));
    x.max_state_bytes = values.count("checkpoint.max-size", x.max_state_bytes);
    result_.pools.push_back(std::move(x));
  }

  void read_work(const view& values, place at, pool& x) {
    auto* list = values.find("work.list");
    auto* range = values.find("work.range");
    auto* from_file = values.find("work.file");
    auto given = (list != nullptr ? 1 : 0) + (range != nullptr ? 1 : 0)
                 + (from_file != nullptr ? 1 : 0);
    if (given == 0) {
      if (!values.mistaken("work.list") && !values.mistaken("work.range")
          && !values.mistaken("work.file"))
        report_.error(at, "pool " + printable(x.name)
                            + " has no work; give it work.list, work.range or "
                              "work.file");
      return;
    }
    auto first = list != nullptr ? list : range != nullptr ? range : from_file;
    if (given > 1) {
      report_.error(first->where, "pool " + printable(x.name)
                                    + " has more than one kind of work; keep "
                                      "one");
      return;
    }
    std::vector<std::string> units;
    // Of each unit, for a file.
    std::vector<std::size_t> lines;
    std::string path;
    if (list != nullptr) {
      units = std::get<std::vector<std::string>>(list->what);
    } else if (range != nullptr) {
      auto& text = std::get<std::string>(range->what);
      auto got = expand_range(text);
      if (!got) {
        report_.error(range->where, "work.range " + printable(text)
                                      + ": expected one range such as "
                                        "shard-{0..15}, of at most a million "
                                        "units");
        return;
      }
      units = std::move(*got);
    } else {
      path = resolve(std::get<std::string>(from_file->what));
      std::string text;
      if (auto why = read_text(path, max_work_file_bytes, text); !why.empty()) {
        report_.error(from_file->where, "work.file cannot be read: " + why);
        return;
      }
      std::istringstream in{text};
      std::size_t number = 0;
      for (std::string line; std::getline(in, line);) {
        ++number;
        if (!line.empty() && line.back() == '\r')
          line.pop_back();
        if (line.empty() || line.front() == '#')
          continue;
        if (units.size() == max_units) {
          report_.error(from_file->where,
                        "work.file " + printable(path)
                          + " has more than a million units of work");
          return;
        }
        units.push_back(line);
        lines.push_back(number);
      }
    }
    if (units.empty())
      report_.error(first->where,
                    "pool " + printable(x.name) + " has no units of work");
    for (std::size_t i = 0; i < units.size(); ++i) {
      auto where
        = i < first->elements.size() ? first->elements[i] : first->where;
      auto origin = lines.empty() ? std::string{}
                                  : printable(path) + " line "
                                      + std::to_string(lines[i]) + ": ";
      add_unit(units[i], where, origin, x);
    }
  }

  void add_unit(std::string& unit, place where, const std::string& origin,
                pool& x) {
    if (auto problem = identifier_problem(unit); !problem.empty()) {
      report_.error(where, origin + "work " + printable(unit) + " "
                             + std::string{problem});
      return;
    }
    auto [pos, fresh] = owners_.emplace(unit, x.name);
    if (!fresh) {
      report_.error(where,
                    origin + "work " + printable(unit) + " stands "
                      + (pos->second == x.name
                           ? "twice in pool " + printable(x.name)
                           : "in pool " + printable(pos->second) + " already"));
      return;
    }
    x.work.push_back(std::move(unit));
  }

  void read_timing(const view& values, place at, pool& x) {
    values.get("ttl", x.ttl);
    if (!values.get("renew", x.renew))
      x.renew = x.ttl / 2;
    if (!values.get("margin", x.margin))
      x.margin = std::min<duration>(milliseconds{500}, x.ttl / 20);
    values.get("retry.first", x.retry.first);
    values.get("retry.max", x.retry.max);
    values.get("retry.jitter", x.retry.jitter);
    values.get("idle", x.idle);
    values.get("rerun", x.rerun);
    values.get("backoff", x.backoff);
    values.get("cleanup", x.cleanup);
    values.get("stop.grace", x.stop.grace);
    std::string name;
    if (values.get("stop.signal", name))
      for (auto& [word, number] : signals)
        if (word == name)
          x.stop.signal = number;
    compare(values, at, x);
    if (x.ttl < std::chrono::seconds{2}
        && (result_.store.url.starts_with("postgres")
            || result_.store.url.starts_with("mysql")
            || result_.store.url.starts_with("mariadb")))
      report_.warning(values.find("ttl")->where,
                      "a ttl of " + format_duration(x.ttl)
                        + " leaves little time over a network");
  }

  // Durations that only make sense together. Each side says where its value
  // comes from, and what to do is named as a value.
  void compare(const view& values, place at, const pool& x) {
    view root{doc_.root};
    auto place_of = [&](std::string_view key) {
      auto* found = values.find(key);
      return found == nullptr ? at : found->where;
    };
    auto value = [](duration time, bool given) {
      return "(" + format_duration(time) + (given ? ")" : ", default)");
    };
    auto shown = [&](std::string_view key, duration time) {
      return std::string{key} + " " + value(time, values.find(key) != nullptr);
    };
    // What was mistyped is not what is compared.
    auto good = [&](auto... keys) { return !(values.mistaken(keys) || ...); };
    auto of_pool = " of pool " + printable(x.name);
    auto take = [](std::string_view key, duration time) {
      return "; take " + std::string{key} + ": " + format_duration(time);
    };
    auto ttl = "the " + shown("ttl", x.ttl) + of_pool;
    auto timeout = result_.store.timeout;
    if (!good("ttl"))
      return;
    if (good("renew") && x.renew >= x.ttl)
      report_.error(place_of("renew"), shown("renew", x.renew)
                                         + " must be shorter than " + ttl
                                         + take("renew", x.ttl / 2));
    else if (good("renew") && x.renew > x.ttl / 2)
      report_.warning(place_of("renew"),
                      shown("renew", x.renew) + " is more than half of " + ttl
                        + "; one failed renewal may lose a lease"
                        + take("renew", x.ttl / 2));
    if (good("renew") && !root.mistaken("store.timeout") && x.renew < x.ttl
        && timeout >= x.ttl - x.renew) {
      // Half of the time leaves room for a second attempt.
      auto better = (x.ttl - x.renew) / 2;
      auto* given = root.find("store.timeout");
      auto where = place_of(values.find("ttl") != nullptr ? "ttl" : "renew");
      if (given != nullptr && values.find("ttl") == nullptr
          && values.find("renew") == nullptr)
        where = given->where;
      report_.error(where, "store.timeout " + value(timeout, given != nullptr)
                             + " must be shorter than ttl - renew ("
                             + format_duration(x.ttl - x.renew) + of_pool + ")"
                             + (better >= shortest_store_timeout
                                  ? take("store.timeout", better)
                                  : take("ttl", x.renew + 2 * timeout)));
    }
    if (good("margin") && x.margin >= x.ttl / 4)
      report_.error(
        place_of("margin"),
        shown("margin", x.margin) + " must be shorter than a quarter of " + ttl
          + take("margin", std::min<duration>(milliseconds{500}, x.ttl / 20)));
    if (good("retry.first", "retry.max") && x.retry.first > x.retry.max)
      report_.error(place_of("retry.first"),
                    shown("retry.first", x.retry.first)
                      + " must not be longer than "
                      + shown("retry.max", x.retry.max) + of_pool
                      + take("retry.max", x.retry.first));
  }

  void read_run(const view& values, place at, pool& x) {
    auto& run = x.run;
    values.get("run.directory", run.directory);
    if (!run.directory.empty()) {
      run.directory = resolve(run.directory);

      struct stat info {};

      if (stat(run.directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
        report_.error(values.find("run.directory")->where,
                      "run.directory " + printable(run.directory)
                        + " is not a folder");
    }
    values.get("run.environment", run.environment);
    std::string output;
    if (values.get("run.output", output)) {
      if (output.starts_with("file:")) {
        run.output = output_mode::file;
        run.output_file = resolve(output.substr(5));
        check_output(values.find("run.output")->where, x);
      } else {
        run.output = output == "inherit"   ? output_mode::inherit
                     : output == "discard" ? output_mode::discard
                                           : output_mode::prefix;
      }
    }
    values.get("run.exit-codes.retired", run.retired_codes);
    values.get("run.exit-codes.permanent", run.permanent_codes);
    for (auto code :
         std::set<int>(run.retired_codes.begin(), run.retired_codes.end()))
      if (std::find(run.permanent_codes.begin(), run.permanent_codes.end(),
                    code)
          != run.permanent_codes.end())
        report_.error(values.find("run.exit-codes.permanent")->where,
                      "exit code " + std::to_string(code)
                        + " cannot be both retired and permanent");
    if (!values.get("run.command", run.argv)) {
      if (!values.mistaken("run.command"))
        report_.error(at, "pool " + printable(x.name) + " has no run.command");
      return;
    }
    // A path is meant from where the file is, or from the command's folder.
    if (!run.argv.empty() && run.argv.front().find('/') != std::string::npos
        && run.directory.empty())
      run.argv.front() = resolve(run.argv.front());
    auto where = values.find("run.command")->where;
    if (run.argv.empty() || run.argv.front().empty())
      report_.error(where, "run.command is empty");
    else if (auto why = program_problem(run); !why.empty())
      report_.error(where, "run.command: " + why);
  }

  // Whether each unit can have a file of its own there.
  void check_output(place where, const pool& x) {
    for (auto& unit : x.work) {
      auto path = output_file_of(x.run, unit);
      auto slash = path.rfind('/');
      auto folder = path.substr(0, slash + 1);

      struct stat info {};

      if (path.size() - slash - 1 > max_file_name_bytes)
        report_.error(where, "run.output: the name of the file for work "
                               + printable(unit) + " has "
                               + std::to_string(path.size() - slash - 1)
                               + " bytes; file systems take at most "
                               + std::to_string(max_file_name_bytes));
      else if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
        report_.error(where, "run.output: folder " + printable(folder)
                               + " does not exist; create it first");
      else if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
        report_.error(where, "run.output: " + printable(path)
                               + " is a folder; name a file, such as "
                               + printable(path + "/{work}.log"));
      else if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
        continue; // A device or a FIFO may be shared.
      else if (auto [pos, fresh] = outputs_.emplace(path, unit); !fresh)
        report_.error(where, "run.output: work " + printable(pos->second)
                               + " and " + printable(unit)
                               + " would share the file " + printable(path)
                               + "; put {work} into its name");
      else
        continue;
      return; // Once is enough.
    }
  }

  // Why the program cannot be started, as far as one can tell now.
  std::string program_problem(const command& run) const {
    auto& program = run.argv.front();
    if (program.find("{work}") != std::string::npos)
      return {};
    if (program.find('/') != std::string::npos) {
      auto path = program.starts_with('/') || run.directory.empty()
                    ? program
                    : run.directory + "/" + program;
      if (access(path.c_str(), F_OK) != 0)
        return printable(path) + " does not exist";

      struct stat info {};

      if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
        return printable(path) + " is a folder";
      if (access(path.c_str(), X_OK) != 0)
        return printable(path) + " is not executable";
      return {};
    }
    std::istringstream folders{env_("PATH").value_or("/usr/bin:/bin")};
    for (std::string dir; std::getline(folders, dir, ':');)
      if (access(((dir.empty() ? "." : dir) + "/" + program).c_str(), X_OK)
          == 0)
        return {};
    return printable(program) + " is not in the PATH";
  }

  const document& doc_;
  std::string folder_;
  const environment& env_;
  reader& report_;
  file result_;
  std::set<std::string> names_;
  std::map<std::string, std::string> owners_;
  /// Which unit of work writes to a file.
  std::map<std::string, std::string> outputs_;
};

} // namespace

file check(const document& doc, const std::string& folder,
           const environment& env, reader& report) {
  return checker{doc, folder, env, report}.run();
}

std::string read_text(const std::string& path, std::size_t limit,
                      std::string& into) {
  struct stat info {};

  if (stat(path.c_str(), &info) != 0)
    return printable(path) + ": " + std::strerror(errno);
  if (S_ISDIR(info.st_mode))
    return printable(path) + " is a folder";
  errno = 0;
  std::ifstream in{path, std::ios::binary};
  if (!in)
    return printable(path) + ": " + std::strerror(errno);
  // A device may have no end.
  std::string text;
  std::array<char, 64 * 1024> block;
  while (in && text.size() <= limit) {
    auto most = std::min(block.size(), limit + 1 - text.size());
    in.read(block.data(), static_cast<std::streamsize>(most));
    text.append(block.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad())
    return printable(path) + ": " + std::strerror(errno);
  if (text.size() > limit)
    return printable(path) + " is larger than "
           + std::to_string(limit / (1024 * 1024)) + " MiB";
  into = std::move(text);
  return {};
}

std::optional<std::vector<std::string>> expand_range(const std::string& text) {
  auto open = text.find('{');
  auto close = text.find('}', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos
      || text.find('{', open + 1) != std::string::npos)
    return std::nullopt;
  std::string_view inside{text};
  inside = inside.substr(open + 1, close - open - 1);
  auto dots = inside.find("..");
  if (dots == std::string_view::npos)
    return std::nullopt;
  auto number = [](std::string_view digits) -> std::optional<std::uint64_t> {
    std::uint64_t n = 0;
    auto [end, err]
      = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (digits.empty() || err != std::errc{}
        || end != digits.data() + digits.size())
      return std::nullopt;
    return n;
  };
  auto low = inside.substr(0, dots);
  auto from = number(low);
  auto to = number(inside.substr(dots + 2));
  if (!from || !to || *to < *from || *to - *from >= max_units)
    return std::nullopt;
  auto width = low.size() > 1 && low.front() == '0' ? low.size() : 0;
  std::vector<std::string> result;
  for (auto n = *from; n <= *to; ++n) {
    auto digits = std::to_string(n);
    if (digits.size() < width)
      digits.insert(0, width - digits.size(), '0');
    result.push_back(text.substr(0, open) + digits + text.substr(close + 1));
  }
  return result;
}

} // namespace leasehold::config::internal
