// SPDX-License-Identifier: Apache-2.0
#include "leasehold/config/internal/check.hpp"

#include "leasehold/identifier.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

// More units in one pool than this are a mistake in a range.
constexpr std::uint64_t max_units = 1'000'000;

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

  const entry* find(std::string_view key) const {
    if (auto pos = values_.find(key); pos != values_.end())
      return &pos->second;
    if (defaults_ == nullptr)
      return nullptr;
    auto pos = defaults_->find("defaults." + std::string{key});
    return pos == defaults_->end() ? nullptr : &pos->second;
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
    if (doc_.pools.empty())
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
      } else if (auto why = read_text(resolve(url_file), store.url);
                 !why.empty()) {
        report_.error(where, "store.url-file cannot be read: " + why);
      } else {
        while (!store.url.empty()
               && (store.url.back() == '\n' || store.url.back() == '\r'))
          store.url.pop_back();
        if (store.url.empty())
          report_.error(where, "store.url-file is empty");
      }
    } else if (!has_url) {
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
      auto path = resolve(std::get<std::string>(from_file->what));
      std::string text;
      if (auto why = read_text(path, text); !why.empty()) {
        report_.error(from_file->where, "work.file cannot be read: " + why);
        return;
      }
      std::istringstream in{text};
      for (std::string line; std::getline(in, line);) {
        if (!line.empty() && line.back() == '\r')
          line.pop_back();
        if (!line.empty() && line.front() != '#')
          units.push_back(line);
      }
    }
    if (units.empty())
      report_.error(first->where,
                    "pool " + printable(x.name) + " has no units of work");
    for (std::size_t i = 0; i < units.size(); ++i) {
      auto where
        = i < first->elements.size() ? first->elements[i] : first->where;
      add_unit(units[i], where, x);
    }
  }

  void add_unit(std::string& unit, place where, pool& x) {
    if (auto problem = identifier_problem(unit); !problem.empty()) {
      report_.error(where,
                    "work " + printable(unit) + " " + std::string{problem});
      return;
    }
    auto [pos, fresh] = owners_.emplace(unit, x.name);
    if (!fresh) {
      report_.error(where,
                    "work " + printable(unit) + " stands "
                      + (pos->second == x.name
                           ? "twice in pool " + printable(x.name)
                           : "in pool " + printable(pos->second) + " already"));
      return;
    }
    x.work.push_back(std::move(unit));
  }

  void read_timing(const view& values, place at, pool& x) {
    values.get("ttl", x.ttl);
    auto place_of = [&](std::string_view key) {
      auto* found = values.find(key);
      return found == nullptr ? at : found->where;
    };
    auto of_pool = " of pool " + printable(x.name);
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
    if (x.renew >= x.ttl)
      report_.error(place_of("renew"), "renew (" + format_duration(x.renew)
                                         + ") must be shorter than the ttl ("
                                         + format_duration(x.ttl) + ")"
                                         + of_pool);
    else if (x.renew > x.ttl / 2)
      report_.warning(place_of("renew"),
                      "renew (" + format_duration(x.renew)
                        + ") is more than half of the ttl ("
                        + format_duration(x.ttl) + ")" + of_pool
                        + "; one failed renewal may lose a lease");
    if (x.renew < x.ttl && result_.store.timeout >= x.ttl - x.renew)
      report_.error(place_of(values.find("ttl") != nullptr ? "ttl" : "renew"),
                    "store.timeout (" + format_duration(result_.store.timeout)
                      + ") must be shorter than ttl - renew ("
                      + format_duration(x.ttl - x.renew) + of_pool + ")");
    if (x.margin >= x.ttl / 4)
      report_.error(place_of("margin"),
                    "margin (" + format_duration(x.margin)
                      + ") must be shorter than a quarter of the ttl ("
                      + format_duration(x.ttl) + ")" + of_pool);
    if (x.retry.first > x.retry.max)
      report_.error(place_of("retry.first"),
                    "retry.first (" + format_duration(x.retry.first)
                      + ") must not be longer than retry.max ("
                      + format_duration(x.retry.max) + ")" + of_pool);
    if (x.ttl < std::chrono::seconds{2}
        && (result_.store.url.starts_with("postgres")
            || result_.store.url.starts_with("mysql")
            || result_.store.url.starts_with("mariadb")))
      report_.warning(place_of("ttl"),
                      "a ttl of " + format_duration(x.ttl)
                        + " leaves little time over a network");
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
      } else {
        run.output = output == "inherit"   ? output_mode::inherit
                     : output == "discard" ? output_mode::discard
                                           : output_mode::prefix;
      }
    }
    values.get("run.exit-codes.retired", run.retired_codes);
    values.get("run.exit-codes.permanent", run.permanent_codes);
    for (auto code : run.retired_codes)
      if (std::find(run.permanent_codes.begin(), run.permanent_codes.end(),
                    code)
          != run.permanent_codes.end())
        report_.error(values.find("run.exit-codes.permanent")->where,
                      "exit code " + std::to_string(code)
                        + " cannot be both retired and permanent");
    if (!values.get("run.command", run.argv)) {
      report_.error(at, "pool " + printable(x.name) + " has no run.command");
      return;
    }
    auto where = values.find("run.command")->where;
    if (run.argv.empty() || run.argv.front().empty())
      report_.error(where, "run.command is empty");
    else if (auto why = program_problem(run); !why.empty())
      report_.error(where, "run.command: " + why);
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
};

} // namespace

file check(const document& doc, const std::string& folder,
           const environment& env, reader& report) {
  return checker{doc, folder, env, report}.run();
}

std::string read_text(const std::string& path, std::string& into) {
  struct stat info {};

  if (stat(path.c_str(), &info) != 0)
    return printable(path) + ": " + std::strerror(errno);
  if (S_ISDIR(info.st_mode))
    return printable(path) + " is a folder";
  std::ifstream in{path, std::ios::binary};
  if (!in)
    return printable(path) + ": " + std::strerror(errno);
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad())
    return printable(path) + ": " + std::strerror(errno);
  into = std::move(text).str();
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
