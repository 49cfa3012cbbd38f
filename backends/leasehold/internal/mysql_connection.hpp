// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/duration.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// The handle of libmariadb, whose header stays in the source.
struct st_mysql;
struct st_mysql_res;

namespace leasehold::internal {

/// For the time limits of calls, which no clock of ours may bend: a store must
/// not hang, whatever tests do to time.
using limit_clock = std::chrono::steady_clock;

/// The rows of one result in text format, fetched completely.
class mysql_rows {
public:
  mysql_rows() = default;

  explicit mysql_rows(st_mysql_res* res);

  /// Goes on to the next row; false at the end.
  bool next();

  std::uint64_t size() const noexcept;

  bool is_null(unsigned column) const noexcept;

  /// 0 for null.
  std::int64_t integer(unsigned column) const noexcept;

  /// Empty for null.
  std::string_view bytes(unsigned column) const noexcept;

private:
  struct deleter {
    void operator()(st_mysql_res* ptr) const noexcept;
  };

  std::unique_ptr<st_mysql_res, deleter> res_;
  char** row_ = nullptr;
  unsigned long* lengths_ = nullptr;
};

/// How a packet of statements went.
struct mysql_reply {
  enum class status : std::uint8_t {
    ok,
    /// The server answered with an error: the statement at `position` had no
    /// effect, and those behind it were not run.
    refused,
    /// Connecting failed, or the connection was lost or given up.
    lost,
  };

  status state = status::lost;

  /// Whether the server may have got all of it. Without that it had no effect.
  bool sent = false;

  /// Which statement of the packet was refused, from 0.
  std::size_t position = 0;

  /// MySQL's error number: the server's, or from 2000 on libmariadb's.
  unsigned number = 0;

  /// The first line of the message. A server's may hold bound values.
  std::string message;

  /// The results that have columns, in order.
  std::vector<mysql_rows> results;

  bool ok() const noexcept {
    return state == status::ok;
  }

  /// The last result; only where a statement of the packet has one.
  mysql_rows& rows() {
    return results.back();
  }
};

struct mysql_connection_options {
  /// For SOCI, which passes it on to libmariadb.
  std::string parameters;

  /// Cut out of every message.
  std::vector<std::string> secrets;

  /// Whether a connection without encryption is refused.
  bool encrypted = false;

  /// Upper limit for a call.
  duration timeout{0};
};

/// One connection to a MySQL or MariaDB server: opened by SOCI, used through
/// libmariadb so that several statements travel in one packet and every wait
/// ends at a time that we choose. Heals by itself: a call on a lost connection
/// connects again, though after a failed attempt not before a short pause. Not
/// thread-safe.
class mysql_connection {
public:
  explicit mysql_connection(mysql_connection_options options);

  mysql_connection(const mysql_connection&) = delete;
  mysql_connection& operator=(const mysql_connection&) = delete;

  /// Waits for a connection attempt that is under way, but not for ever.
  ~mysql_connection();

  /// Makes sure that there is a live connection. Returns `ok` or `lost`.
  mysql_reply connect(limit_clock::time_point end);

  /// Runs statements that are separated by semicolons. They travel together,
  /// so that the server never waits for us in the midst of a transaction.
  mysql_reply run(std::string_view sql, limit_clock::time_point end);

  /// Puts any bytes into the user variable `@lh_state` of the session.
  /// Changes nothing in the database.
  mysql_reply upload(std::string_view bytes, limit_clock::time_point end);

  /// Gives the connection up; the next call makes another one.
  void drop() noexcept;

  /// The server's max_allowed_packet in bytes; 0 before the first connection.
  std::uint64_t max_packet() const noexcept {
    return max_packet_;
  }

  /// How long the server lets a statement wait for a row that is locked.
  duration lock_limit() const noexcept;

private:
  class session;
  struct attempt;

  st_mysql* conn() const noexcept;

  bool is_alive() const noexcept;

  mysql_reply lost(bool sent, std::string_view what, unsigned number = 0);

  /// What the connection's last error makes of the call.
  mysql_reply failed(std::size_t position);

  mysql_reply start_session(limit_clock::time_point end);

  mysql_reply exchange(std::string_view sql, limit_clock::time_point end);

  std::string cleaned(std::string_view text) const;

  mysql_connection_options options_;

  std::unique_ptr<session> session_;

  /// Runs on a thread of its own, since neither name lookup nor a connect to a
  /// stopped server can be interrupted.
  std::shared_ptr<attempt> attempt_;

  std::uint64_t max_packet_ = 0;

  /// When the next attempt may start, and how long to pause after it.
  limit_clock::time_point retry_at_{};
  duration pause_{0};

  std::string last_problem_;
};

} // namespace leasehold::internal
