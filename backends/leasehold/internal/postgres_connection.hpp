// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/duration.hpp"

#include <libpq-fe.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace leasehold::internal {

/// For the time limits of calls, which no clock of ours may bend: a store must
/// not hang, whatever tests do to time.
using limit_clock = std::chrono::steady_clock;

struct result_deleter {
  void operator()(PGresult* ptr) const noexcept {
    PQclear(ptr);
  }
};

using result_ptr = std::unique_ptr<PGresult, result_deleter>;

/// A statement that is prepared at its first use on each connection.
struct prepared_statement {
  std::string name;
  std::string text;
};

/// A parameter in binary format. Refers to bytes that outlive the call.
struct parameter {
  std::string_view bytes;
  bool is_null = false;
};

/// How a statement went.
struct reply {
  enum class status : std::uint8_t {
    ok,
    /// The server answered with an error: the statement had no effect.
    refused,
    /// Connecting failed, or the connection was lost or given up.
    lost,
  };

  status state = status::lost;

  /// Whether the server may have got the whole statement. Without that it had
  /// no effect.
  bool sent = false;

  result_ptr result;

  std::string sqlstate;

  /// For people: the first line of the primary message, no bound values.
  std::string message;

  bool ok() const noexcept {
    return state == status::ok;
  }
};

/// Typed access to the rows of a binary result.
class result_view {
public:
  explicit result_view(const PGresult* res) : res_(res) {
    // nop
  }

  int rows() const noexcept {
    return PQntuples(res_);
  }

  bool is_null(int row, int column) const noexcept {
    return PQgetisnull(res_, row, column) != 0;
  }

  /// An integer of any width; 0 for null.
  std::int64_t integer(int row, int column) const noexcept;

  /// Microseconds since the Unix epoch.
  std::int64_t timestamp(int row, int column) const noexcept;

  /// Empty for null.
  std::string_view bytes(int row, int column) const noexcept;

private:
  const PGresult* res_;
};

struct connection_options {
  /// A libpq URI with a query part, which SOCI passes on unharmed.
  std::string uri;

  /// Cut out of every message.
  std::vector<std::string> secrets;

  /// Upper limit for a call.
  duration timeout{0};
};

/// One connection to a PostgreSQL server: opened by SOCI, used through libpq's
/// non-blocking calls so that every wait ends at a time that we choose. Heals
/// by itself: a call on a lost connection connects again, though after a
/// failed attempt not before a short pause. Not thread-safe.
class postgres_connection {
public:
  explicit postgres_connection(connection_options options);

  postgres_connection(const postgres_connection&) = delete;
  postgres_connection& operator=(const postgres_connection&) = delete;

  /// Waits for a connection attempt that is under way, but not for ever.
  ~postgres_connection();

  /// Makes sure that there is a live connection. Returns `ok` or `lost`.
  reply connect(limit_clock::time_point end);

  /// Runs a kept statement with binary parameters and a binary result.
  reply run(const prepared_statement& stmt, std::span<const parameter> params,
            limit_clock::time_point end);

  /// Runs SQL without parameters, also several statements at once. The result
  /// is the last one, as text.
  reply run_text(const std::string& sql, limit_clock::time_point end);

  /// Gives the connection up; the next call makes another one.
  void drop() noexcept;

private:
  class session;
  struct attempt;

  PGconn* conn() const noexcept;

  bool is_alive() noexcept;

  /// Makes an attempt, or waits for the one that is under way.
  reply open_session(limit_clock::time_point end);

  reply lost(bool sent, std::string_view what);

  reply start_session(limit_clock::time_point end);

  /// The settings that make the server give up before `left` is over.
  std::string limits(duration left);

  /// Sets them anew if what is left of the call asks for it.
  reply fit_limits(limit_clock::time_point end);

  /// Waits for the socket; on timeout gives up the connection.
  bool wait(short events, limit_clock::time_point end, short* seen = nullptr);

  reply finish(limit_clock::time_point end);

  reply prepare(const prepared_statement& stmt, limit_clock::time_point end);

  std::string cleaned(std::string_view text) const;

  connection_options options_;

  std::unique_ptr<session> session_;

  /// Runs on a thread of its own, since neither name lookup nor a connect to a
  /// stopped server can be interrupted.
  std::shared_ptr<attempt> attempt_;

  /// Names of the statements that this session has prepared.
  std::set<std::string> prepared_;

  /// The time that the server was told to keep to, see `limits`.
  duration told_{0};

  /// When the next attempt may start, and how long to pause after it.
  limit_clock::time_point retry_at_{};
  duration pause_{0};

  std::string last_problem_;
};

} // namespace leasehold::internal
