// SPDX-License-Identifier: Apache-2.0
#include "leasehold/internal/mysql_connection.hpp"

#include "leasehold/internal/url.hpp"

#include <fcntl.h>
#include <poll.h>
#include <soci/mysql/soci-mysql.h>
#include <soci/soci.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace leasehold::internal {

namespace {

using namespace std::chrono_literals;

constexpr duration first_pause = 100ms;
constexpr duration longest_pause = 1s;

constexpr std::string_view too_late = "no answer within the time limit";

// A reply holds up to 256 rows of work ID, holder and a small state, in hex.
constexpr std::string_view longest_aggregate = "67108864";

/// When the call that this thread is in has to end.
thread_local limit_clock::time_point wait_end;

/// libmariadb calls this before it would block. Returns whether the socket is
/// ready.
int wait_for_socket(my_socket fd, my_bool is_read, int) {
  using std::chrono::milliseconds;
  for (;;) {
    auto left = std::chrono::ceil<milliseconds>(wait_end - limit_clock::now());
    if (left.count() <= 0) {
      errno = ETIMEDOUT;
      return 0;
    }
    pollfd one{fd, static_cast<short>(is_read ? POLLIN : POLLOUT), 0};
    auto n = ::poll(&one, 1, static_cast<int>(left.count()));
    if (n > 0)
      return 1;
    if (n < 0 && errno != EINTR)
      return -1;
  }
}

/// Whether an error number is libmariadb's own, which means that the
/// connection is of no more use.
bool is_client_error(unsigned number) {
  return (number >= CR_MIN_ERROR && number <= 2999)
         || (number >= 5000 && number <= 5999);
}

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

/// libmariadb sets SIGPIPE to be ignored, which is not a library's to decide;
/// its sends raise none, except those of OpenSSL.
void start_library(bool keep_ignoring) {
  static std::once_flag once;
  std::call_once(once, [keep_ignoring] {
    struct sigaction before {};
    ::sigaction(SIGPIPE, nullptr, &before);
    mysql_server_init(0, nullptr, nullptr);
    if (!keep_ignoring)
      ::sigaction(SIGPIPE, &before, nullptr);
  });
}

} // namespace

void mysql_rows::deleter::operator()(st_mysql_res* ptr) const noexcept {
  mysql_free_result(ptr);
}

mysql_rows::mysql_rows(st_mysql_res* res) : res_(res) {
  // nop
}

bool mysql_rows::next() {
  if (!res_)
    return false;
  row_ = mysql_fetch_row(res_.get());
  lengths_ = row_ == nullptr ? nullptr : mysql_fetch_lengths(res_.get());
  return row_ != nullptr;
}

std::uint64_t mysql_rows::size() const noexcept {
  return res_ ? mysql_num_rows(res_.get()) : 0;
}

bool mysql_rows::is_null(unsigned column) const noexcept {
  return row_[column] == nullptr;
}

std::int64_t mysql_rows::integer(unsigned column) const noexcept {
  std::int64_t result = 0;
  auto text = bytes(column);
  std::from_chars(text.data(), text.data() + text.size(), result);
  return result;
}

std::string_view mysql_rows::bytes(unsigned column) const noexcept {
  if (is_null(column))
    return {};
  return {row_[column], lengths_[column]};
}

/// A SOCI session whose connection is ours to use.
class mysql_connection::session {
public:
  explicit session(const std::string& parameters)
    : soci_(soci::mysql, parameters) {
    mysql_optionsv(conn(), MARIADB_OPT_IO_WAIT, wait_for_socket);
    // A server must not be able to ask for our files.
    unsigned off = 0;
    mysql_optionsv(conn(), MYSQL_OPT_LOCAL_INFILE, &off);
    // Else OpenSSL would block where libmariadb cannot call us.
    auto fd = mysql_get_socket(conn());
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  }

  ~session() {
    // Says goodbye only if that does not take any time.
    wait_end = {};
  }

  MYSQL* conn() const {
    return static_cast<soci::mysql_session_backend*>(
             const_cast<soci::session&>(soci_).get_backend())
      ->conn_;
  }

  /// Nothing that is sent or received after this reaches either end.
  void shut() const noexcept {
    ::shutdown(mysql_get_socket(conn()), SHUT_RDWR);
  }

private:
  soci::session soci_;
};

struct mysql_connection::attempt {
  std::mutex mtx;
  std::condition_variable changed;
  bool done = false;
  std::unique_ptr<session> result;
  std::string problem;
};

mysql_connection::mysql_connection(mysql_connection_options options)
  : options_(std::move(options)) {
  // nop
}

mysql_connection::~mysql_connection() {
  if (attempt_) {
    std::unique_lock guard{attempt_->mtx};
    attempt_->changed.wait_for(guard, options_.timeout,
                               [this] { return attempt_->done; });
  }
}

st_mysql* mysql_connection::conn() const noexcept {
  return session_->conn();
}

void mysql_connection::drop() noexcept {
  if (session_) {
    session_->shut();
    session_.reset();
  }
}

// Two of these fit into a call, so that a lock that stays is waited for twice.
duration mysql_connection::lock_limit() const noexcept {
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
    options_.timeout * 4 / 10);
  return std::max(seconds, std::chrono::seconds{1});
}

std::string mysql_connection::cleaned(std::string_view text) const {
  std::string result{first_line(text)};
  for (auto& secret : options_.secrets)
    result = without_secret(std::move(result), secret);
  return result;
}

mysql_reply mysql_connection::lost(bool sent, std::string_view what,
                                   unsigned number) {
  mysql_reply result;
  result.sent = sent;
  result.number = number;
  result.message = cleaned(what);
  drop();
  return result;
}

mysql_reply mysql_connection::failed(std::size_t position) {
  auto number = mysql_errno(conn());
  std::string_view message = mysql_error(conn());
  if (is_client_error(number)) {
    // What could not be written to the end is no complete packet, and the
    // server does nothing about it.
    auto sent
      = number != CR_SERVER_GONE_ERROR && number != CR_NET_PACKET_TOO_LARGE;
    return lost(sent, limit_clock::now() >= wait_end ? too_late : message,
                number);
  }
  mysql_reply result;
  result.state = mysql_reply::status::refused;
  result.sent = true;
  result.position = position;
  result.number = number;
  result.message = cleaned(message);
  return result;
}

// A server that went away while nothing was asked has left a message or an end
// of file in the socket. Finding that before a statement is sent saves the
// statement from an unknown outcome.
bool mysql_connection::is_alive() const noexcept {
  pollfd one{mysql_get_socket(conn()), POLLIN | POLLRDHUP, 0};
  return one.fd >= 0 && ::poll(&one, 1, 0) == 0;
}

mysql_reply mysql_connection::connect(limit_clock::time_point end) {
  if (session_) {
    if (is_alive()) {
      mysql_reply result;
      result.state = mysql_reply::status::ok;
      return result;
    }
    drop();
  }
  if (!attempt_) {
    if (limit_clock::now() < retry_at_)
      return lost(false, last_problem_);
    start_library(options_.encrypted);
    attempt_ = std::make_shared<attempt>();
    try {
      std::thread{[state = attempt_, parameters = options_.parameters] {
        std::unique_ptr<session> made;
        std::string problem;
        try {
          made = std::make_unique<session>(parameters);
        } catch (const soci::soci_error& e) {
          problem = e.get_error_message();
        } catch (const std::exception& e) {
          problem = e.what();
        }
        std::lock_guard guard{state->mtx};
        state->result = std::move(made);
        state->problem = std::move(problem);
        state->done = true;
        state->changed.notify_all();
      }}.detach();
    } catch (const std::system_error&) {
      attempt_.reset();
      return lost(false, "no thread to connect with");
    }
  }
  std::string problem = "no connection within the time limit";
  {
    std::unique_lock guard{attempt_->mtx};
    if (attempt_->changed.wait_until(guard, end,
                                     [this] { return attempt_->done; })) {
      session_ = std::move(attempt_->result);
      problem = std::move(attempt_->problem);
    } else {
      // Goes on by itself; the next call waits for it again.
      return lost(false, problem);
    }
  }
  attempt_.reset();
  if (session_) {
    auto started = start_session(end);
    if (started.ok()) {
      pause_ = duration{0};
      return started;
    }
    problem = started.message;
  }
  drop();
  pause_ = std::clamp(pause_ * 2, first_pause, longest_pause);
  retry_at_ = limit_clock::now() + pause_;
  last_problem_ = cleaned(problem);
  return lost(false, last_problem_);
}

// Whatever the server's defaults are, a session has what the statements need.
mysql_reply mysql_connection::start_session(limit_clock::time_point end) {
  if (options_.encrypted && mysql_get_ssl_cipher(conn()) == nullptr)
    return lost(false, "the server does not encrypt the connection");
  wait_end = end;
  if (mysql_set_server_option(conn(), MYSQL_OPTION_MULTI_STATEMENTS_ON) != 0)
    return failed(0);
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  auto lock_seconds
    = std::to_string(std::chrono::duration_cast<seconds>(lock_limit()).count());
  // The server gives up before we do: an answer that says so is worth more
  // than a connection that was cut and an outcome that nobody knows.
  auto limit
    = std::chrono::duration_cast<milliseconds>(options_.timeout * 8 / 10);
  std::string sql
    = "set session transaction isolation level read committed, read write;"
      "set session autocommit = 1, completion_type = 0, sql_safe_updates = 0,"
      " sql_big_selects = 1, sql_select_limit = 18446744073709551615,"
      " sql_mode = 'STRICT_ALL_TABLES', group_concat_max_len = "
      + std::string{longest_aggregate} + ", innodb_lock_wait_timeout = "
      + lock_seconds + ", lock_wait_timeout = " + lock_seconds + ";";
  if (mariadb_connection(conn()) != 0) {
    auto thousandths = std::to_string(limit.count() % 1000 + 1000).substr(1);
    sql += "set session max_statement_time = "
           + std::to_string(limit.count() / 1000) + "."
           + thousandths
           // Only what is stopped between two packets can wait so long.
           + ", idle_transaction_timeout = "
           + std::to_string(std::chrono::ceil<seconds>(options_.timeout).count()
                            + 1)
           + ";";
  } else {
    // MySQL 8: of its statements, only those that read can be limited.
    sql += "set session max_execution_time = " + std::to_string(limit.count())
           + ";";
  }
  sql += "select @@max_allowed_packet";
  auto result = exchange(sql, end);
  if (result.ok() && result.rows().next())
    max_packet_ = static_cast<std::uint64_t>(result.rows().integer(0));
  if (!result.ok())
    result.state = mysql_reply::status::lost;
  return result;
}

mysql_reply mysql_connection::exchange(std::string_view sql,
                                       limit_clock::time_point end) {
  wait_end = end;
  if (limit_clock::now() >= end)
    return lost(false, too_late);
  if (mysql_real_query(conn(), sql.data(), sql.size()) != 0)
    return failed(0);
  mysql_reply result;
  result.sent = true;
  for (std::size_t position = 0;; ++position) {
    if (auto rows = mysql_store_result(conn()))
      result.results.emplace_back(rows);
    else if (mysql_errno(conn()) != 0)
      return failed(position);
    auto more = mysql_next_result(conn());
    if (more > 0)
      return failed(position + 1);
    if (more < 0)
      break;
  }
  result.state = mysql_reply::status::ok;
  return result;
}

mysql_reply mysql_connection::run(std::string_view sql,
                                  limit_clock::time_point end) {
  if (auto state = connect(end); !state.ok())
    return state;
  return exchange(sql, end);
}

mysql_reply mysql_connection::upload(std::string_view bytes,
                                     limit_clock::time_point end) {
  constexpr std::string_view sql = "set @lh_state = ?";
  constexpr std::size_t piece = 512 * 1024;
  if (auto state = connect(end); !state.ok())
    return state;
  wait_end = end;

  struct closer {
    void operator()(MYSQL_STMT* ptr) const noexcept {
      mysql_stmt_close(ptr);
    }
  };

  std::unique_ptr<MYSQL_STMT, closer> stmt{mysql_stmt_init(conn())};
  if (!stmt)
    return lost(false, "out of memory");
  auto problem = [&] {
    auto number = mysql_stmt_errno(stmt.get());
    std::string message = mysql_stmt_error(stmt.get());
    mysql_reply result;
    result.number = number;
    result.message = cleaned(message);
    if (!is_client_error(number)) {
      result.state = mysql_reply::status::refused;
      return result;
    }
    stmt.reset();
    return lost(false, limit_clock::now() >= end ? too_late : message, number);
  };
  if (mysql_stmt_prepare(stmt.get(), sql.data(), sql.size()) != 0)
    return problem();
  MYSQL_BIND bind{};
  bind.buffer_type = MYSQL_TYPE_LONG_BLOB;
  if (mysql_stmt_bind_param(stmt.get(), &bind) != 0)
    return problem();
  // In pieces, as one packet must not be as large as a state may be.
  for (auto rest = bytes; !rest.empty();) {
    auto part = rest.substr(0, piece);
    rest.remove_prefix(part.size());
    if (mysql_stmt_send_long_data(stmt.get(), 0, part.data(), part.size()) != 0)
      return problem();
  }
  if (mysql_stmt_execute(stmt.get()) != 0)
    return problem();
  mysql_reply result;
  result.state = mysql_reply::status::ok;
  return result;
}

} // namespace leasehold::internal
