// SPDX-License-Identifier: Apache-2.0
// The MariaDB server that tests/support/mariadb_server runs them with.
#pragma once

#include "leasehold/backend/open.hpp"

#include <boost/test/unit_test.hpp>
#include <mysql.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace leasehold::test {

inline std::string environment(const char* name) {
  auto value = std::getenv(name);
  if (value == nullptr)
    throw std::runtime_error{std::string{name}
                             + " is not set; run this through "
                               "tests/support/mariadb_server"};
  return value;
}

/// mysql://user:password@host:port/database
inline std::string mysql_url() {
  return environment("LEASEHOLD_TEST_MYSQL");
}

inline backend::store_source mysql_source(const std::string& url,
                                          backend::store_options options = {}) {
  auto result = backend::store_source::parse(url, std::move(options));
  if (auto why = std::get_if<backend::failure>(&result))
    throw std::runtime_error{why->detail};
  return std::get<backend::store_source>(std::move(result));
}

/// The tests' own way to the server, past the code under test.
class side_connection {
public:
  side_connection() : conn_(mysql_init(nullptr), mysql_close) {
    auto socket = environment("LEASEHOLD_TEST_MYSQL_SOCKET");
    if (mysql_real_connect(conn_.get(), nullptr, "admin", "admin", "lease", 0,
                           socket.c_str(), CLIENT_MULTI_STATEMENTS)
        == nullptr)
      throw std::runtime_error{mysql_error(conn_.get())};
  }

  /// Runs SQL and returns the first field of the last result's first row, if
  /// there is one.
  std::string run(const std::string& sql) {
    std::string result;
    auto state = mysql_real_query(conn_.get(), sql.data(), sql.size());
    while (state == 0) {
      std::unique_ptr<MYSQL_RES, decltype(&mysql_free_result)> res{
        mysql_store_result(conn_.get()), mysql_free_result};
      if (res) {
        auto row = mysql_fetch_row(res.get());
        result = row != nullptr && row[0] != nullptr ? row[0] : "";
      }
      state = mysql_next_result(conn_.get());
    }
    if (state > 0)
      throw std::runtime_error{mysql_error(conn_.get())};
    return result;
  }

private:
  std::unique_ptr<MYSQL, decltype(&mysql_close)> conn_;
};

/// mariadb_server stop, start, freeze or thaw.
inline void server(const std::string& command) {
  auto line = "'" + environment("LEASEHOLD_TEST_MYSQL_SERVER") + "' " + command;
  if (std::system(line.c_str()) != 0)
    throw std::runtime_error{"mariadb_server " + command + " failed"};
}

} // namespace leasehold::test
