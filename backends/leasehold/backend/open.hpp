// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/backend/store.hpp"
#include "leasehold/clock.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace leasehold::backend {

/// What a program does about the tables of a store when it starts. A library
/// never changes a schema on its own: whoever starts the program decides.
enum class schema_policy : std::uint8_t {
  /// Look, and refuse to start if something is missing.
  check,
  /// Create what is missing.
  apply,
  /// Do not look; the first operation shows.
  off,
};

/// How a store is opened. `store_source::parse` checks each field.
struct store_options {
  /// Name of the lease table: letters, digits and underscores, at most 63; on
  /// PostgreSQL optionally behind the name of a schema, on MySQL behind that of
  /// a database, as in `ops.leases`. A `table` in the URL wins.
  std::string table = "leasehold_leases";

  /// Each call on a store ends within this time (and at most 200 ms more),
  /// whatever server and network do. From 100 ms to 10 minutes.
  duration timeout = std::chrono::seconds{3};

  /// Larger checkpoints are refused with `state_too_large`. At most 512 MiB.
  std::size_t max_state_bytes = default_max_state_bytes;

  /// What memory and SQLite stores take for the time. Several processes that
  /// share a SQLite file share a machine, and with it the default, its wall
  /// clock. PostgreSQL and MySQL ask the server instead.
  store_clock clock = system_store_clock();
};

/// What went wrong outside of an operation; `code` is `none` if nothing did.
struct failure {
  ec code = ec::none;

  /// A second code that says more, for example schema_missing.
  ec also = ec::none;

  /// For people: one line per problem, no trailing newline, no credentials.
  std::string detail;

  bool ok() const noexcept {
    return code == ec::none;
  }
};

/// A checked URL, ready to open any number of sessions on the store that it
/// names. A value: cheap to copy. Thread-compatible; the stores that it opens
/// are independent of it and of each other.
///
///     postgresql://user:password@host:5432/database?table=leases&sslmode=...
///     postgresql:///database?host=/run/postgresql     (a Unix socket)
///     mysql://user:password@host:3306/database?table=leases&ssl-ca=...
///     mysql://user@/database?socket=/run/mysqld/mysqld.sock
///     sqlite:///absolute/path     sqlite:relative/path     memory:
///
/// What a `postgresql` (or `postgres`) URL leaves out comes from libpq's usual
/// places: PGHOST and its kin, the password file. A `mysql` (or
/// `mariadb`) URL names a database on either of these servers; `localhost`
/// without a port is libmariadb's default socket; with an `ssl-` parameter
/// (`ssl-ca`, `ssl-cert`, `ssl-key`: files) an unencrypted connection is
/// refused, but the server's name is not compared with its certificate.
/// Reserved characters are percent-encoded. Sources copied from one `memory:`
/// source share their data.
class store_source {
public:
  /// What is behind the URL. Internal.
  class impl;

  /// Connects to nothing and touches no file. Fails with `config_invalid`.
  static std::variant<store_source, failure> parse(std::string_view url,
                                                   store_options options = {});

  store_source(const store_source&);
  store_source& operator=(const store_source&);
  store_source(store_source&&) noexcept;
  store_source& operator=(store_source&&) noexcept;
  ~store_source();

  /// One session. Connects at its first use; never fails and never throws:
  /// what is wrong shows as the outcome of the operations.
  store_ptr open() const;

  /// Whether the store has one writer at a time, so that more than one session
  /// gains nothing.
  bool single_writer() const noexcept;

  /// "postgresql", "mysql", "sqlite" or "memory".
  std::string_view kind() const noexcept;

  /// The table, from the URL or else the options; empty for `memory:`.
  const std::string& table() const noexcept;

  /// The URL for people, secrets shown as ***.
  std::string display() const;

  /// The statements that `apply_schema` would run on an empty store, without
  /// their semicolons.
  std::vector<std::string> schema_statements() const;

  /// Whether the table is there, with all that the store needs of it. Names
  /// each difference on a line of `detail`; changes nothing. Fails with
  /// `store_failed` and `schema_missing`, or as an operation would.
  failure check_schema() const;

  /// Creates what is missing and leaves alone what is there; safe to run by
  /// many processes at once. Takes up to 30 s, or the timeout if that is more.
  failure apply_schema() const;

  /// Does what `policy` says.
  failure prepare_schema(schema_policy policy) const;

private:
  explicit store_source(std::shared_ptr<const impl> ptr);

  std::shared_ptr<const impl> impl_;
};

} // namespace leasehold::backend
