// SPDX-License-Identifier: Apache-2.0
#include "leasehold/internal/postgres_connection.hpp"

#include "leasehold/internal/binary.hpp"
#include "leasehold/internal/url.hpp"

#include <poll.h>
#include <soci/postgresql/soci-postgresql.h>
#include <soci/soci.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace leasehold::internal {

namespace {

using namespace std::chrono_literals;

constexpr duration first_pause = 100ms;
constexpr duration longest_pause = 1s;

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

std::string field(const PGresult* res, int code) {
  auto text = PQresultErrorField(res, code);
  return text == nullptr ? std::string{} : std::string{text};
}

// libpq's own processors print to stderr.
void ignore_notice(void*, const PGresult*) {
  // nop
}

} // namespace

std::int64_t result_view::integer(int row, int column) const noexcept {
  return read_integer(PQgetvalue(res_, row, column),
                      static_cast<std::size_t>(PQgetlength(res_, row, column)));
}

std::int64_t result_view::timestamp(int row, int column) const noexcept {
  return is_null(row, column) ? 0
                              : read_timestamp(PQgetvalue(res_, row, column));
}

std::string_view result_view::bytes(int row, int column) const noexcept {
  return {PQgetvalue(res_, row, column),
          static_cast<std::size_t>(PQgetlength(res_, row, column))};
}

/// A SOCI session whose connection is ours to use.
class postgres_connection::session {
public:
  explicit session(const std::string& uri) : soci_(soci::postgresql, uri) {
    PQsetNoticeReceiver(conn(), ignore_notice, nullptr);
    PQsetnonblocking(conn(), 1);
  }

  PGconn* conn() const {
    return static_cast<soci::postgresql_session_backend*>(
             const_cast<soci::session&>(soci_).get_backend())
      ->conn_;
  }

  /// Nothing that is sent or received after this reaches either end, and no
  /// call on the connection blocks any more.
  void shut() const noexcept {
    ::shutdown(PQsocket(conn()), SHUT_RDWR);
  }

private:
  soci::session soci_;
};

struct postgres_connection::attempt {
  std::mutex mtx;
  std::condition_variable changed;
  bool done = false;
  std::unique_ptr<session> result;
  std::string problem;
};

postgres_connection::postgres_connection(connection_options options)
  : options_(std::move(options)) {
  // nop
}

postgres_connection::~postgres_connection() {
  if (attempt_) {
    std::unique_lock guard{attempt_->mtx};
    attempt_->changed.wait_for(guard, options_.timeout,
                               [this] { return attempt_->done; });
  }
}

PGconn* postgres_connection::conn() const noexcept {
  return session_->conn();
}

void postgres_connection::drop() noexcept {
  // What is prepared belongs to the connection.
  prepared_.clear();
  if (session_) {
    session_->shut();
    session_.reset();
  }
}

std::string postgres_connection::cleaned(std::string_view text) const {
  std::string result{first_line(text)};
  for (auto& secret : options_.secrets)
    result = without_secret(std::move(result), secret);
  return result;
}

reply postgres_connection::lost(bool sent, std::string_view what) {
  reply result;
  result.sent = sent;
  result.message = cleaned(what);
  drop();
  return result;
}

// A server that went away while nothing was asked has left a message or an end
// of file in the socket. Finding that before a statement is sent saves the
// statement from an unknown outcome.
bool postgres_connection::is_alive() noexcept {
  constexpr int most_messages = 64;
  for (int i = 0; i < most_messages; ++i) {
    if (PQstatus(conn()) != CONNECTION_OK)
      return false;
    pollfd fd{PQsocket(conn()), POLLIN, 0};
    if (::poll(&fd, 1, 0) <= 0)
      return true;
    if (PQconsumeInput(conn()) == 0)
      return false;
    while (auto note = PQnotifies(conn()))
      PQfreemem(note);
  }
  return PQstatus(conn()) == CONNECTION_OK;
}

reply postgres_connection::connect(limit_clock::time_point end) {
  if (session_) {
    if (is_alive()) {
      reply result;
      result.state = reply::status::ok;
      return result;
    }
    drop();
  }
  auto is_old = attempt_ != nullptr;
  auto result = open_session(end);
  // What came of an attempt that an earlier call began says little: it may
  // have fallen into a hole that is closed now, or have succeeded long ago.
  if (!result.ok() && is_old && !attempt_ && limit_clock::now() < end) {
    retry_at_ = {};
    result = open_session(end);
  }
  return result;
}

reply postgres_connection::open_session(limit_clock::time_point end) {
  if (!attempt_) {
    if (limit_clock::now() < retry_at_)
      return lost(false, last_problem_);
    attempt_ = std::make_shared<attempt>();
    try {
      std::thread{[state = attempt_, uri = options_.uri] {
        std::unique_ptr<session> made;
        std::string problem;
        try {
          made = std::make_unique<session>(uri);
        } catch (const soci::soci_error& e) {
          problem = e.get_error_message();
          // SOCI puts libpq's message behind a line of its own.
          if (auto pos = problem.find('\n');
              pos != std::string::npos && pos + 1 < problem.size())
            problem.erase(0, pos + 1);
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

std::string postgres_connection::limits(duration left) {
  // The server gives up before we do: an answer that says so is worth more
  // than a connection that was cut and an outcome that nobody knows, and a
  // statement that nobody waits for must not be run later.
  auto milliseconds = [](duration x) {
    return std::to_string(std::max<long long>(
      1, std::chrono::duration_cast<std::chrono::milliseconds>(x).count()));
  };
  told_ = left;
  return "set statement_timeout = " + milliseconds(left * 8 / 10)
         + "; set lock_timeout = " + milliseconds(left * 7 / 10);
}

// Most calls find the server told already: only one that has spent a part of
// its time, and the first one after it, has to.
reply postgres_connection::fit_limits(limit_clock::time_point end) {
  reply result;
  result.state = reply::status::ok;
  auto left = std::chrono::duration_cast<duration>(end - limit_clock::now());
  left = std::clamp(left, duration{0}, options_.timeout);
  auto tolerance = options_.timeout / 10;
  auto is_too_long = left < told_ - told_ / 10;
  auto is_too_short
    = told_ < options_.timeout - tolerance && left > told_ + tolerance;
  if (!is_too_long && !is_too_short)
    return result;
  if (PQsendQuery(conn(), limits(left).c_str()) == 0)
    return lost(false, PQerrorMessage(conn()));
  result = finish(end);
  result.sent = false;
  return result;
}

reply postgres_connection::start_session(limit_clock::time_point end) {
  auto sql
    = limits(options_.timeout)
      // A plan that was made while the table was small must still be
      // right when it is large: always by the index.
      + "; set plan_cache_mode = force_generic_plan"
        "; set enable_seqscan = off; set enable_hashjoin = off"
        "; set enable_mergejoin = off; set jit = off"
        "; set default_transaction_isolation = 'read committed'"
        "; set default_transaction_deferrable = off"
        "; set client_min_messages = warning"
        // What was confirmed, and each number that was given out, survives a
        // crash, even where roles or databases settle for less.
        "; select set_config('synchronous_commit', 'on', false)"
        " where current_setting('synchronous_commit') = 'off'";
  if (PQsendQuery(conn(), sql.c_str()) == 0)
    return lost(false, PQerrorMessage(conn()));
  auto result = finish(end);
  if (result.ok())
    return result;
  result.state = reply::status::lost;
  return result;
}

bool postgres_connection::wait(short events, limit_clock::time_point end,
                               short* seen) {
  using std::chrono::milliseconds;
  for (;;) {
    auto left = std::chrono::ceil<milliseconds>(end - limit_clock::now());
    if (left.count() <= 0)
      return false;
    pollfd fd{PQsocket(conn()), events, 0};
    auto n = ::poll(&fd, 1, static_cast<int>(left.count()));
    if (n > 0) {
      if (seen)
        *seen = fd.revents;
      return true;
    }
    if (n < 0 && errno != EINTR)
      return false;
  }
}

// Sends what is queued and collects the results of the statement.
reply postgres_connection::finish(limit_clock::time_point end) {
  constexpr std::string_view too_late = "no answer within the time limit";
  // As long as something is left to send, the server has no complete message
  // and commits nothing; shutting the socket keeps it so.
  for (int left = PQflush(conn()); left != 0; left = PQflush(conn())) {
    if (left < 0)
      return lost(false, PQerrorMessage(conn()));
    short seen = 0;
    if (!wait(POLLIN | POLLOUT, end, &seen))
      return lost(false, too_late);
    if ((seen & (POLLIN | POLLHUP | POLLERR)) != 0
        && PQconsumeInput(conn()) == 0)
      return lost(false, PQerrorMessage(conn()));
  }
  reply result;
  result.sent = true;
  result.state = reply::status::ok;
  for (;;) {
    while (PQisBusy(conn()) != 0) {
      if (!wait(POLLIN, end))
        return lost(true, too_late);
      if (PQconsumeInput(conn()) == 0)
        return lost(true, PQerrorMessage(conn()));
    }
    result_ptr next{PQgetResult(conn())};
    if (!next)
      break;
    auto status = PQresultStatus(next.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK
        && result.state == reply::status::ok) {
      result.state = reply::status::refused;
      result.sqlstate = field(next.get(), PG_DIAG_SQLSTATE);
      result.message = cleaned(field(next.get(), PG_DIAG_MESSAGE_PRIMARY));
    }
    if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT)
      return lost(true, "unexpected copy");
    result.result = std::move(next);
  }
  if (PQstatus(conn()) != CONNECTION_OK) {
    auto what = result.message.empty()
                  ? std::string{"the connection was closed"}
                  : result.message;
    return lost(true, what);
  }
  // A session that is about to end reports that as an error of its own, and
  // the transaction may have been committed before it.
  auto& state = result.sqlstate;
  if (result.state == reply::status::refused
      && (state.empty() || state.starts_with("57P") || state.starts_with("08")
          || state == "40003"))
    return lost(true, result.message);
  return result;
}

reply postgres_connection::prepare(const prepared_statement& stmt,
                                   limit_clock::time_point end) {
  if (PQsendPrepare(conn(), stmt.name.c_str(), stmt.text.c_str(), 0, nullptr)
      == 0)
    return lost(false, PQerrorMessage(conn()));
  auto result = finish(end);
  result.sent = false;
  if (result.ok())
    prepared_.insert(stmt.name);
  return result;
}

reply postgres_connection::run(const prepared_statement& stmt,
                               std::span<const parameter> params,
                               limit_clock::time_point end) {
  if (auto state = connect(end); !state.ok())
    return state;
  if (auto state = fit_limits(end); !state.ok())
    return state;
  if (!prepared_.contains(stmt.name)) {
    auto state = prepare(stmt, end);
    if (!state.ok())
      return state;
  }
  std::vector<const char*> values;
  std::vector<int> lengths;
  std::vector<int> formats(params.size(), 1);
  for (auto& param : params) {
    values.push_back(param.is_null ? nullptr : param.bytes.data());
    lengths.push_back(static_cast<int>(param.bytes.size()));
  }
  if (PQsendQueryPrepared(conn(), stmt.name.c_str(),
                          static_cast<int>(params.size()), values.data(),
                          lengths.data(), formats.data(), 1)
      == 0)
    return lost(false, PQerrorMessage(conn()));
  return finish(end);
}

reply postgres_connection::run_text(const std::string& sql,
                                    limit_clock::time_point end) {
  if (auto state = connect(end); !state.ok())
    return state;
  if (auto state = fit_limits(end); !state.ok())
    return state;
  if (PQsendQuery(conn(), sql.c_str()) == 0)
    return lost(false, PQerrorMessage(conn()));
  return finish(end);
}

} // namespace leasehold::internal
