// SPDX-License-Identifier: Apache-2.0
// The PostgreSQL server that tests/support/postgres_server runs them with.
#pragma once

#include "leasehold/backend/open.hpp"

#include <boost/test/unit_test.hpp>
#include <libpq-fe.h>

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
                               "tests/support/postgres_server"};
  return value;
}

/// postgresql://user:password@host:port/database
inline std::string postgres_url() {
  return environment("LEASEHOLD_TEST_POSTGRES");
}

inline backend::store_source
postgres_source(const std::string& url, backend::store_options options = {}) {
  auto result = backend::store_source::parse(url, std::move(options));
  if (auto why = std::get_if<backend::failure>(&result))
    throw std::runtime_error{why->detail};
  return std::get<backend::store_source>(std::move(result));
}

/// The tests' own way to the server, past the code under test.
class side_connection {
public:
  explicit side_connection(const std::string& url
                           = environment("LEASEHOLD_TEST_POSTGRES_ADMIN"))
    : conn_(PQconnectdb(url.c_str()), PQfinish) {
    if (PQstatus(conn_.get()) != CONNECTION_OK)
      throw std::runtime_error{PQerrorMessage(conn_.get())};
    PQsetNoticeProcessor(
      conn_.get(), [](void*, const char*) {}, nullptr);
  }

  /// Runs SQL and returns the first field of the first row, if there is one.
  std::string run(const std::string& sql) {
    std::unique_ptr<PGresult, decltype(&PQclear)> res{
      PQexec(conn_.get(), sql.c_str()), PQclear};
    auto status = PQresultStatus(res.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
      throw std::runtime_error{PQerrorMessage(conn_.get())};
    return PQntuples(res.get()) > 0 ? PQgetvalue(res.get(), 0, 0) : "";
  }

private:
  std::unique_ptr<PGconn, decltype(&PQfinish)> conn_;
};

/// postgres_server stop, start, freeze or thaw.
inline void server(const std::string& command) {
  auto line
    = "'" + environment("LEASEHOLD_TEST_POSTGRES_SERVER") + "' " + command;
  if (std::system(line.c_str()) != 0)
    throw std::runtime_error{"postgres_server " + command + " failed"};
}

} // namespace leasehold::test
