// SPDX-License-Identifier: Apache-2.0
#include "leasehold/backend/open.hpp"

#include "leasehold/backend/memory.hpp"
#include "leasehold/internal/mysql_store.hpp"
#include "leasehold/internal/postgres_store.hpp"
#include "leasehold/internal/schema.hpp"
#include "leasehold/internal/sqlite_store.hpp"
#include "leasehold/internal/url.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

namespace leasehold::backend {

using internal::percent_encode;
using internal::table_name;
using internal::url;

class store_source::impl {
public:
  virtual ~impl() = default;

  virtual store_ptr open() const = 0;

  virtual failure check_schema() const {
    return {};
  }

  virtual failure apply_schema() const {
    return {};
  }

  virtual std::vector<std::string> schema_statements() const {
    return {};
  }

  std::string kind;
  std::string display;
  std::string table;
  bool single_writer = true;
};

namespace {

constexpr std::string_view known_schemes
  = "mysql://, postgresql://, sqlite: and memory:";

constexpr std::size_t most_state_bytes = 512u * 1024 * 1024;

failure invalid(std::string detail) {
  return {ec::config_invalid, ec::none, std::move(detail)};
}

/// Keys of a PostgreSQL URL whose values nobody may see.
bool is_secret(std::string_view key) {
  return key == "password" || key == "sslpassword";
}

/// What libpq understands in the query part of a URL.
bool is_libpq_key(std::string_view key) {
  auto options = PQconndefaults();
  auto found = false;
  for (auto pos = options; pos != nullptr && pos->keyword != nullptr; ++pos)
    found = found || key == pos->keyword;
  PQconninfoFree(options);
  return found;
}

std::string problem_with_port(std::string_view port) {
  int number = 0;
  auto [end, error]
    = std::from_chars(port.data(), port.data() + port.size(), number);
  // What is no number may be a part of a password: it is not repeated here.
  if (port.empty() || end != port.data() + port.size()
      || (error != std::errc{} && error != std::errc::result_out_of_range))
    return "holds a port that is not a number; reserved characters in a "
           "user or password are percent-encoded";
  if (error != std::errc{} || number < 1 || number > 65535)
    return "holds a port that is not between 1 and 65535";
  return {};
}

/// Parameters of libpq that take one of a few words; what they mean is its
/// business.
struct libpq_words {
  std::string_view key;
  std::string_view words;
};

constexpr std::array known_words{
  libpq_words{"sslmode", "disable allow prefer require verify-ca verify-full"},
  libpq_words{"gssencmode", "disable prefer require"},
  libpq_words{"channel_binding", "disable prefer require"},
  libpq_words{"target_session_attrs",
              "any read-write read-only primary standby prefer-standby"},
  libpq_words{"keepalives", "0 1"},
  libpq_words{"sslcompression", "0 1"},
  libpq_words{"sslsni", "0 1"},
};

constexpr std::array<std::string_view, 5> known_numbers{
  "connect_timeout", "tcp_user_timeout", "keepalives_idle",
  "keepalives_interval", "keepalives_count"};

/// Of what libpq itself would find only when it connects.
std::string problem_with_value(const std::string& key,
                               const std::string& value) {
  for (auto& known : known_words) {
    if (known.key != key)
      continue;
    std::istringstream words{std::string{known.words}};
    for (std::string word; words >> word;)
      if (word == value)
        return {};
    return "has " + key + "=" + printable(value) + "; it may be one of "
           + std::string{known.words};
  }
  if (std::find(known_numbers.begin(), known_numbers.end(), key)
        != known_numbers.end()
      && (value.empty() || value.size() > 9
          || value.find_first_not_of("0123456789") != std::string::npos))
    return "has " + key + "=" + printable(value) + "; it takes a whole number";
  if (key == "port") {
    std::istringstream ports{value};
    for (std::string port; std::getline(ports, port, ',');)
      if (auto problem = problem_with_port(port); !problem.empty())
        return problem;
  }
  return {};
}

std::string problem_with_hosts(std::string_view hosts) {
  while (!hosts.empty()) {
    auto comma = hosts.find(',');
    auto host = hosts.substr(0, comma);
    hosts = comma == std::string_view::npos ? std::string_view{}
                                            : hosts.substr(comma + 1);
    auto bracket = host.rfind(']');
    auto colon
      = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
    if (colon == std::string_view::npos)
      continue;
    auto port = host.substr(colon + 1);
    if (auto problem = problem_with_port(port); !problem.empty())
      return problem;
  }
  return {};
}

/// Takes `table` out of the query.
std::string take_table(url& parts, std::string otherwise) {
  auto pos = std::find_if(parts.query.begin(), parts.query.end(),
                          [](auto& item) { return item.first == "table"; });
  if (pos == parts.query.end())
    return otherwise;
  auto result = std::move(pos->second);
  parts.query.erase(pos);
  return result;
}

class memory_source : public store_source::impl {
public:
  explicit memory_source(const store_options& options)
    : root_(options.clock, options.max_state_bytes) {
    // nop
  }

  store_ptr open() const override {
    return root_.share();
  }

private:
  memory_store root_;
};

class sqlite_source : public store_source::impl {
public:
  explicit sqlite_source(internal::sqlite_options options)
    : options_(std::move(options)) {
    // nop
  }

  store_ptr open() const override {
    return internal::make_sqlite_store(options_);
  }

  failure check_schema() const override {
    return internal::check_sqlite_schema(options_);
  }

  failure apply_schema() const override {
    return internal::apply_sqlite_schema(options_);
  }

  std::vector<std::string> schema_statements() const override {
    return internal::schema_statements(internal::sqlite_schema, options_.table);
  }

private:
  internal::sqlite_options options_;
};

class postgres_source : public store_source::impl {
public:
  explicit postgres_source(internal::postgres_options options)
    : options_(std::move(options)) {
    // nop
  }

  store_ptr open() const override {
    return internal::make_postgres_store(options_);
  }

  failure check_schema() const override {
    return internal::check_postgres_schema(options_);
  }

  failure apply_schema() const override {
    return internal::apply_postgres_schema(options_);
  }

  std::vector<std::string> schema_statements() const override {
    return internal::schema_statements(internal::postgres_schema,
                                       options_.table);
  }

private:
  internal::postgres_options options_;
};

class mysql_source : public store_source::impl {
public:
  explicit mysql_source(internal::mysql_options options)
    : options_(std::move(options)) {
    // nop
  }

  store_ptr open() const override {
    return internal::make_mysql_store(options_);
  }

  failure check_schema() const override {
    return internal::check_mysql_schema(options_);
  }

  failure apply_schema() const override {
    return internal::apply_mysql_schema(options_);
  }

  std::vector<std::string> schema_statements() const override {
    return internal::mysql_schema_statements(options_.table);
  }

private:
  internal::mysql_options options_;
};

template <class Source>
using parsed = std::variant<std::shared_ptr<Source>, failure>;

parsed<memory_source> parse_memory(const url& parts,
                                   const store_options& options) {
  if (parts.has_authority || !parts.path.empty() || !parts.query.empty())
    return invalid("store URL memory: takes nothing behind the colon");
  auto result = std::make_shared<memory_source>(options);
  result->display = "memory:";
  return result;
}

parsed<sqlite_source> parse_sqlite(url parts, const store_options& options) {
  auto fail = [](std::string_view what) {
    return invalid("store URL sqlite: " + std::string{what});
  };
  internal::sqlite_options result;
  if (auto problem
      = internal::parse_table_name(take_table(parts, options.table),
                                   internal::dialect::sqlite, result.table);
      !problem.empty())
    return invalid(std::move(problem));
  if (!parts.query.empty())
    return fail("takes no parameter but table");
  if (parts.user || parts.password || !parts.hosts.empty())
    return fail("has something between // and the path; an absolute path "
                "needs three slashes, as in sqlite:///var/lib/leases.db, a "
                "relative one none, as in sqlite:leases.db");
  auto& path = parts.path;
  if (path.empty() || path.ends_with('/'))
    return fail("names no file");
  if (path.find('"') != std::string::npos)
    return fail("has a double quote in its path, which cannot be used");
  if (path == ":memory:")
    return fail("keeps leases in a file; use memory: for none");
  result.display = "sqlite:" + std::string{parts.has_authority ? "//" : ""};
  for (auto c : path)
    result.display
      += c == '/' ? std::string{c} : percent_encode(std::string_view{&c, 1});
  if (path.front() != '/') {
    std::array<char, PATH_MAX> buffer{};
    if (::getcwd(buffer.data(), buffer.size()) == nullptr)
      return fail("is relative, but there is no working directory");
    path = std::string{buffer.data()} + "/" + path;
    if (path.find('"') != std::string::npos)
      return fail("has a double quote in its path, which cannot be used");
  }
  if (result.table.base != store_options{}.table)
    result.display += "?table=" + result.table.plain();
  result.path = std::move(path);
  result.timeout = options.timeout;
  result.max_state_bytes = options.max_state_bytes;
  result.clock = options.clock;
  auto display = result.display;
  auto table = result.table.plain();
  auto source = std::make_shared<sqlite_source>(std::move(result));
  source->display = std::move(display);
  source->table = std::move(table);
  return source;
}

parsed<postgres_source> parse_postgres(url parts,
                                       const store_options& options) {
  auto fail = [](std::string_view what) {
    return invalid("store URL postgresql: " + std::string{what});
  };
  internal::postgres_options result;
  if (auto problem
      = internal::parse_table_name(take_table(parts, options.table),
                                   internal::dialect::postgres, result.table);
      !problem.empty())
    return invalid(std::move(problem));
  if (!parts.has_authority)
    return fail("needs two slashes, as in postgresql://user@host/database");
  if (auto problem = problem_with_hosts(parts.hosts); !problem.empty())
    return fail(problem);
  if (parts.path.size() > 1 && parts.path.find('/', 1) != std::string::npos)
    return fail("has a / in the name of its database; write %2F");
  auto& uri = result.connection.uri;
  auto& display = result.display;
  uri = display = "postgresql://";
  if (parts.user) {
    uri += percent_encode(*parts.user);
    display += percent_encode(*parts.user);
  }
  if (parts.password) {
    uri += ":" + percent_encode(*parts.password);
    display += ":***";
    result.connection.secrets.push_back(*parts.password);
  }
  if (parts.user || parts.password) {
    uri += "@";
    display += "@";
  }
  auto database
    = parts.path.empty() ? std::string{} : percent_encode(parts.path.substr(1));
  uri += parts.hosts + "/" + database;
  display += parts.hosts + "/" + database;
  auto separator = '?';
  auto table = result.table.plain();
  if (table != store_options{}.table) {
    display += separator + ("table=" + table);
    separator = '&';
  }
  auto has = [&](std::string_view key) {
    return std::any_of(parts.query.begin(), parts.query.end(),
                       [&](auto& item) { return item.first == key; });
  };
  for (auto& [key, value] : parts.query) {
    if (!is_libpq_key(key))
      return fail("has a parameter " + printable(key)
                  + ", which neither leasehold nor libpq knows");
    if (auto problem = problem_with_value(key, value); !problem.empty())
      return fail(problem);
    display += separator + key + "="
               + (is_secret(key) ? "***" : percent_encode(value));
    separator = '&';
    if (is_secret(key))
      result.connection.secrets.push_back(value);
  }
  auto seconds = std::chrono::ceil<std::chrono::seconds>(options.timeout);
  auto milliseconds
    = std::chrono::ceil<std::chrono::milliseconds>(options.timeout);
  // libpq takes its parameters in any order; the last value of a key counts.
  const std::pair<std::string, std::string> defaults[] = {
    {"connect_timeout",
     std::to_string(std::max<long long>(2, seconds.count()))},
    {"tcp_user_timeout", std::to_string(milliseconds.count())},
    {"fallback_application_name", "leasehold"},
  };
  for (auto& item : defaults)
    if (!has(item.first))
      parts.query.push_back(item);
  std::erase_if(parts.query,
                [](auto& item) { return item.first == "client_encoding"; });
  parts.query.emplace_back("client_encoding", "UTF8");
  separator = '?';
  for (auto& [key, value] : parts.query) {
    uri += separator + key + "=" + percent_encode(value);
    separator = '&';
  }
  result.connection.timeout = options.timeout;
  result.max_state_bytes = options.max_state_bytes;
  auto shown = display;
  auto source = std::make_shared<postgres_source>(std::move(result));
  source->display = std::move(shown);
  source->table = std::move(table);
  source->single_writer = false;
  return source;
}

/// A value for SOCI's list of connection parameters.
std::string soci_parameter(std::string_view key, std::string_view value) {
  std::string result{key};
  result += "='";
  for (auto c : value) {
    if (c == '\'' || c == '\\')
      result += '\\';
    result += c;
  }
  return result + "' ";
}

/// Keys of a MySQL URL, and what SOCI calls them.
std::string_view soci_key(std::string_view key) {
  if (key == "socket")
    return "unix_socket";
  if (key == "ssl-ca")
    return "sslca";
  if (key == "ssl-cert")
    return "sslcert";
  if (key == "ssl-key")
    return "sslkey";
  return {};
}

parsed<mysql_source> parse_mysql(url parts, const store_options& options) {
  auto fail = [](std::string_view what) {
    return invalid("store URL mysql: " + std::string{what});
  };
  internal::mysql_options result;
  if (auto problem
      = internal::parse_table_name(take_table(parts, options.table),
                                   internal::dialect::mysql, result.table);
      !problem.empty())
    return invalid(std::move(problem));
  if (!parts.has_authority)
    return fail("needs two slashes, as in mysql://user@host/database");
  if (parts.hosts.find(',') != std::string::npos)
    return fail("names more than one host, which libmariadb does not know");
  if (parts.hosts.find('%') != std::string::npos)
    return fail("has a % in its host; a Unix socket is written "
                "?socket=/path/to/socket");
  if (auto problem = problem_with_hosts(parts.hosts); !problem.empty())
    return fail(problem);
  if (parts.path.size() < 2)
    return fail("names no database, as in mysql://user@host/database");
  auto database = parts.path.substr(1);
  if (database.find('/') != std::string::npos)
    return fail("has a / in the name of its database");
  std::string_view host = parts.hosts;
  std::string_view port;
  auto bracket = host.rfind(']');
  auto colon = host.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    port = host.substr(colon + 1);
    host = host.substr(0, colon);
  }
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  // Without a port this means a Unix socket to libmariadb, with one it does
  // not mean that to anybody.
  if (host == "localhost" && !port.empty())
    host = "127.0.0.1";
  auto& connection = result.connection;
  auto& parameters = connection.parameters;
  auto& display = result.display;
  display = "mysql://";
  if (parts.user) {
    parameters += soci_parameter("user", *parts.user);
    display += percent_encode(*parts.user);
  }
  if (parts.password) {
    parameters += soci_parameter("password", *parts.password);
    display += ":***";
    connection.secrets.push_back(*parts.password);
  }
  if (parts.user || parts.password)
    display += "@";
  display += parts.hosts + "/" + percent_encode(database);
  if (!host.empty())
    parameters += soci_parameter("host", host);
  if (!port.empty())
    parameters += soci_parameter("port", port);
  parameters += soci_parameter("db", database);
  auto separator = '?';
  if (auto table = result.table.plain(); table != store_options{}.table) {
    display += separator + ("table=" + table);
    separator = '&';
  }
  for (auto& [key, value] : parts.query) {
    auto known = soci_key(key);
    if (known.empty())
      return fail("has a parameter " + printable(key)
                  + "; known are table, socket, ssl-ca, ssl-cert and ssl-key");
    if (known == "unix_socket" && !host.empty())
      return fail("names a host and a socket; use one of them");
    parameters += soci_parameter(known, value);
    connection.encrypted = connection.encrypted || key.starts_with("ssl-");
    display += separator + key + "=" + percent_encode(value);
    separator = '&';
  }
  auto seconds = std::chrono::ceil<std::chrono::seconds>(options.timeout);
  auto limit = std::to_string(seconds.count() + 1);
  parameters
    += soci_parameter("charset", "utf8mb4")
       + soci_parameter("connect_timeout",
                        std::to_string(std::max<long long>(2, seconds.count())))
       // While connecting; later, each call has its own.
       + soci_parameter("read_timeout", limit)
       + soci_parameter("write_timeout", limit);
  connection.timeout = options.timeout;
  result.max_state_bytes = options.max_state_bytes;
  auto shown = display;
  auto source = std::make_shared<mysql_source>(std::move(result));
  source->display = std::move(shown);
  source->single_writer = false;
  return source;
}

} // namespace

std::variant<store_source, failure> store_source::parse(std::string_view text,
                                                        store_options options) {
  using namespace std::chrono_literals;
  if (options.timeout < 100ms || options.timeout > 10min)
    return invalid("store timeout "
                   + format_duration(std::max(options.timeout, duration{0}))
                   + " is not between 100ms and 10m");
  if (options.max_state_bytes > most_state_bytes)
    return invalid("the limit for states is over 512MiB");
  if (!options.clock)
    return invalid("a store needs a clock");
  if (text.empty())
    return invalid("the store URL is empty; use one of "
                   + std::string{known_schemes});
  auto scheme = internal::url_scheme(text);
  if (scheme == "redis")
    return invalid("store URL: " + scheme + " is not supported yet; use one of "
                   + std::string{known_schemes});
  if (scheme != "postgresql" && scheme != "postgres" && scheme != "mysql"
      && scheme != "mariadb" && scheme != "sqlite" && scheme != "memory")
    return invalid(scheme.empty()
                     ? "the store URL does not start with a scheme; use one of "
                         + std::string{known_schemes}
                     : "store URL: unknown scheme " + printable(scheme)
                         + "; use one of " + std::string{known_schemes});
  std::string problem;
  auto parts = internal::parse_url(text, problem);
  if (!parts)
    return invalid("store URL " + scheme + ": " + problem);
  auto wrap
    = [](auto result, std::string kind) -> std::variant<store_source, failure> {
    if (auto why = std::get_if<failure>(&result))
      return std::move(*why);
    auto& ptr = std::get<0>(result);
    ptr->kind = std::move(kind);
    return store_source{std::move(ptr)};
  };
  if (scheme == "memory")
    return wrap(parse_memory(*parts, options), "memory");
  if (scheme == "sqlite")
    return wrap(parse_sqlite(std::move(*parts), options), "sqlite");
  if (scheme == "mysql" || scheme == "mariadb")
    return wrap(parse_mysql(std::move(*parts), options), "mysql");
  return wrap(parse_postgres(std::move(*parts), options), "postgresql");
}

store_source::store_source(std::shared_ptr<const impl> ptr)
  : impl_(std::move(ptr)) {
  // nop
}

store_source::store_source(const store_source&) = default;
store_source& store_source::operator=(const store_source&) = default;
store_source::store_source(store_source&&) noexcept = default;
store_source& store_source::operator=(store_source&&) noexcept = default;
store_source::~store_source() = default;

store_ptr store_source::open() const {
  return impl_->open();
}

bool store_source::single_writer() const noexcept {
  return impl_->single_writer;
}

std::string_view store_source::kind() const noexcept {
  return impl_->kind;
}

const std::string& store_source::table() const noexcept {
  return impl_->table;
}

std::string store_source::display() const {
  return impl_->display;
}

std::vector<std::string> store_source::schema_statements() const {
  return impl_->schema_statements();
}

failure store_source::check_schema() const {
  return impl_->check_schema();
}

failure store_source::apply_schema() const {
  return impl_->apply_schema();
}

failure store_source::prepare_schema(schema_policy policy) const {
  switch (policy) {
    case schema_policy::check:
      return check_schema();
    case schema_policy::apply:
      return apply_schema();
    default:
      return {};
  }
}

} // namespace leasehold::backend
