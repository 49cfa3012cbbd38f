// SPDX-License-Identifier: Apache-2.0
#include "leasehold/internal/sqlite_store.hpp"

#include <soci/soci.h>
#include <soci/sqlite3/soci-sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace leasehold::internal {

namespace {

using backend::failure;
using backend::list_query;
using backend::listing;
using backend::op_kind;
using backend::operation;
using backend::outcome;
using backend::sweep_query;
using backend::sweep_result;

using std::chrono::steady_clock;

// A transaction takes the only write lock there is: not for too long.
constexpr std::size_t max_rows = 1024;
constexpr std::size_t max_bytes = 16 * 1024 * 1024;

/// Where a call stands, for classification.
enum class phase : std::uint8_t { before_commit, commit };

/// What is wrong before SQLite is asked.
struct refused {
  failure why;
};

std::string_view last_part(std::string_view text) {
  // SOCI puts the name of its function in front.
  constexpr std::string_view mark = "::";
  if (auto pos = text.find(mark); pos != std::string_view::npos)
    if (auto end = text.find(": ", pos); end != std::string_view::npos)
      text = text.substr(end + 2);
  return text.substr(0, text.find('\n'));
}

/// What a result code means to us. The one place that knows.
failure classify(int code, std::string_view message, phase at,
                 const sqlite_options& options) {
  failure result;
  result.detail = "SQLite: " + std::string{last_part(message)} + " (code "
                  + std::to_string(code) + ", " + options.path + ")";
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_INTERRUPT:
    case SQLITE_FULL:
      result.code = ec::unavailable;
      return result;
    case SQLITE_NOMEM:
      // A commit needs memory also after it has written all.
      result.code = at == phase::commit ? ec::unknown_outcome : ec::unavailable;
      return result;
    case SQLITE_IOERR:
      // A commit that could not be written to the end may still be found
      // complete when the file is opened the next time.
      result.code
        = at == phase::commit ? ec::unknown_outcome : ec::store_failed;
      result.also = ec::unavailable;
      result.detail += "; look at the disk and its free space";
      return result;
    case SQLITE_TOOBIG:
      result.code = ec::state_too_large;
      return result;
    case SQLITE_READONLY:
      result.code = ec::store_failed;
      result.detail += "; leasehold must be able to write the file and its "
                       "directory";
      return result;
    case SQLITE_NOTADB:
      result.code = ec::store_failed;
      result.also = ec::not_a_store;
      result.detail += "; choose a path where no other file is";
      return result;
    case SQLITE_CORRUPT:
      result.code = ec::store_failed;
      result.also = ec::not_a_store;
      result.detail += "; the file is damaged: stop all that use it, then put "
                       "a copy in its place, or remove it and run `leasehold "
                       "schema apply -s "
                       + options.display + "` (all progress starts anew)";
      return result;
    default:
      result.code = ec::store_failed;
      if (message.find("no such column") != std::string_view::npos
          || message.find("has no column") != std::string_view::npos) {
        result.also = ec::not_a_store;
        result.detail += "; " + foreign_table(options.table);
      } else if (message.find("no such table") != std::string_view::npos) {
        result.also = ec::schema_missing;
        result.detail += "; run `leasehold schema apply -s " + options.display
                         + "` for table " + options.table.plain();
      }
      return result;
  }
}

failure to_failure(const std::exception& e, phase at,
                   const sqlite_options& options) {
  if (auto known = dynamic_cast<const soci::sqlite3_soci_error*>(&e))
    return classify(known->result(), known->get_error_message(), at, options);
  failure result;
  result.code = ec::store_failed;
  // The text of other errors of SOCI may carry bound values behind the first
  // part, which get_error_message leaves out.
  if (auto other = dynamic_cast<const soci::soci_error*>(&e))
    result.detail
      = "SQLite: " + std::string{last_part(other->get_error_message())};
  else
    result.detail = "SQLite: " + std::string{last_part(e.what())};
  return result;
}

/// The columns that decide, for `row_statement`.
struct fields {
  std::string holder_id;
  long long number = 0;
  long long expires_us = 0;
  std::string exit;
  std::string previous_exit;
  std::string previous_holder_id;
  long long request = 0;
  long long sequence = 0;

  bool released() const noexcept {
    return !exit.empty();
  }
};

/// A kept statement with the variables that are bound to it. Whoever catches
/// an exception destroys all of them before the session.
class kept {
public:
  /// Runs it and returns whether there was a row. Reads to the end: a statement
  /// that is not at its end keeps the transaction from committing.
  bool run() {
    auto found = stmt_->execute(true);
    if (found)
      while (stmt_->fetch())
        ; // one row at most; all are selected by key
    return found;
  }

protected:
  template <class Prepared>
  void prepare(const Prepared& what) {
    stmt_.emplace(what);
  }

private:
  std::optional<soci::statement> stmt_;
};

struct select_row : kept {
  std::string work_id;
  fields out;

  select_row(soci::session& sql, const std::string& table) {
    using namespace soci;
    prepare(
      (sql.prepare << "select holder_id, fencing_token, expires_at,"
                      " coalesce(exit_mode, ''), prev_exit_mode,"
                      " coalesce(prev_holder_id, ''), coalesce(request_id, 0),"
                      " coalesce(checkpoint_seq, 0) from "
                        + table + " where work_id = :id",
       into(out.holder_id), into(out.number), into(out.expires_us),
       into(out.exit), into(out.previous_exit), into(out.previous_holder_id),
       into(out.request), into(out.sequence), use(work_id, "id")));
  }
};

struct select_state : kept {
  std::string work_id;
  std::string state;

  select_state(soci::session& sql, const std::string& table) {
    using namespace soci;
    prepare((sql.prepare << "select checkpoint from " + table
                              + " where work_id = :id"
                                " and length(checkpoint) > 0",
             into(state), use(work_id, "id")));
  }
};

struct next_number : kept {
  long long number = 0;

  next_number(soci::session& sql, const std::string& counter) {
    using namespace soci;
    prepare((sql.prepare << "update " + counter
                              + " set last_number = last_number + 1"
                                " where id = 1 returning last_number",
             into(number)));
  }
};

struct write_claim : kept {
  std::string work_id;
  std::string holder_id;
  long long number = 0;
  long long expires_us = 0;
  long long now_us = 0;
  long long request = 0;
  std::string previous_exit;
  std::string previous_holder_id;

  write_claim(soci::session& sql, const std::string& table) {
    using namespace soci;
    prepare((sql.prepare
               << "insert into " + table
                    + " (work_id, holder_id, fencing_token, expires_at,"
                      " prev_exit_mode, prev_holder_id, acquired_at,"
                      " updated_at, request_id) values (:id, :holder, :number,"
                      " :expires, :pexit, nullif(:pholder, ''), :now, :now,"
                      " nullif(:request, 0))"
                      " on conflict (work_id) do update set"
                      " holder_id = excluded.holder_id,"
                      " fencing_token = excluded.fencing_token,"
                      " expires_at = excluded.expires_at, exit_mode = null,"
                      " prev_exit_mode = excluded.prev_exit_mode,"
                      " prev_holder_id = excluded.prev_holder_id,"
                      " acquired_at = excluded.acquired_at,"
                      " updated_at = excluded.updated_at,"
                      " request_id = excluded.request_id,"
                      " checkpoint_seq = null",
             use(work_id, "id"), use(holder_id, "holder"),
             use(number, "number"), use(expires_us, "expires"),
             use(previous_exit, "pexit"), use(previous_holder_id, "pholder"),
             use(now_us, "now"), use(request, "request")));
  }
};

struct write_renewal : kept {
  std::string work_id;
  std::string holder_id;
  long long number = 0;
  long long expires_us = 0;
  long long now_us = 0;
  long long extended_us = 0;

  write_renewal(soci::session& sql, const std::string& table) {
    using namespace soci;
    prepare((sql.prepare << "update " + table
                              + " set expires_at = max(expires_at, :expires),"
                                " updated_at = :now"
                                " where work_id = :id and holder_id = :holder"
                                " and fencing_token = :number"
                                " and exit_mode is null and expires_at > :now"
                                " returning expires_at",
             into(extended_us), use(expires_us, "expires"), use(now_us, "now"),
             use(work_id, "id"), use(holder_id, "holder"),
             use(number, "number")));
  }
};

struct write_state : kept {
  std::string work_id;
  long long expires_us = 0;
  long long now_us = 0;
  long long sequence = 0;
  std::string state;

  write_state(soci::session& sql, const std::string& table) {
    using namespace soci;
    prepare((sql.prepare << "update " + table
                              + " set expires_at = :expires, updated_at = :now,"
                                " checkpoint_seq = :seq, checkpoint ="
                                " nullif(cast(:state as blob), x'')"
                                " where work_id = :id",
             use(expires_us, "expires"), use(now_us, "now"),
             use(sequence, "seq"), use(state, "state"), use(work_id, "id")));
  }
};

/// Also for a checkpoint whose state is not written.
struct write_expiry : kept {
  std::string work_id;
  long long expires_us = 0;
  long long now_us = 0;
  std::string exit;

  write_expiry(soci::session& sql, const std::string& table) {
    using namespace soci;
    prepare((sql.prepare << "update " + table
                              + " set expires_at = :expires, updated_at = :now,"
                                " exit_mode = nullif(:exit, '')"
                                " where work_id = :id",
             use(expires_us, "expires"), use(now_us, "now"), use(exit, "exit"),
             use(work_id, "id")));
  }
};

struct delete_row : kept {
  std::string work_id;

  delete_row(soci::session& sql, const std::string& table) {
    using namespace soci;
    prepare((sql.prepare << "delete from " + table + " where work_id = :id",
             use(work_id, "id")));
  }
};

struct plain_statement : kept {
  plain_statement(soci::session& sql, std::string_view text) {
    prepare((sql.prepare << std::string{text}));
  }
};

struct statements {
  select_row row;
  select_state state;
  next_number number;
  write_claim claim;
  write_renewal renewal;
  write_state checkpoint;
  write_expiry expiry;
  delete_row erase;
  plain_statement begin;
  plain_statement begin_write;
  plain_statement commit;

  statements(soci::session& sql, const table_name& table)
    : row(sql, table.quoted()), state(sql, table.quoted()),
      number(sql, table.quoted_sequence()), claim(sql, table.quoted()),
      renewal(sql, table.quoted()), checkpoint(sql, table.quoted()),
      expiry(sql, table.quoted()), erase(sql, table.quoted()),
      begin(sql, "begin"), begin_write(sql, "begin immediate"),
      commit(sql, "commit") {
    // nop
  }
};

/// An open file with our settings and a time limit. Not movable: SQLite keeps
/// a pointer to it.
class connection {
public:
  connection(const sqlite_options& options, bool create,
             steady_clock::time_point end)
    : options_(options), random_(std::random_device{}()), end_(end) {
    check_file(create);
    sql_.emplace(soci::sqlite3, "db=\"" + options_.path + "\"");
    sqlite_api::sqlite3_busy_handler(handle(), on_busy, this);
    sqlite_api::sqlite3_progress_handler(handle(), 10'000, on_progress, this);
    *sql_ << "pragma synchronous = full";
    std::string mode;
    *sql_ << "pragma journal_mode", soci::into(mode);
    if (mode != "wal")
      use_wal();
  }

  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  soci::session& sql() {
    return *sql_;
  }

  void limit(steady_clock::time_point end) noexcept {
    end_ = end;
  }

  /// Whether the path still leads to the file that is open. Writing to a file
  /// that was replaced would mean two truths about who holds what.
  bool is_current() noexcept {
    int moved = 0;
    auto rc = sqlite_api::sqlite3_file_control(handle(), "main",
                                               SQLITE_FCNTL_HAS_MOVED, &moved);
    return rc == SQLITE_OK && moved == 0;
  }

  /// For after a failure: ends what may be open.
  void abandon() noexcept {
    sqlite_api::sqlite3_exec(handle(), "rollback", nullptr, nullptr, nullptr);
  }

private:
  sqlite_api::sqlite3* handle() {
    return static_cast<soci::sqlite3_session_backend*>(sql_->get_backend())
      ->conn_;
  }

  // SQLite would create a file that is not there.
  void check_file(bool create) const {
    struct stat info {};

    failure why;
    why.code = ec::store_failed;
    // A path that can never be one is a mistake of whoever wrote it.
    auto no_path = [](int error) {
      return error == ENOENT || error == ENOTDIR || error == ELOOP
             || error == ENAMETOOLONG;
    };
    auto slash = options_.path.rfind('/');
    auto directory = slash == 0 ? "/" : options_.path.substr(0, slash);
    if (::stat(options_.path.c_str(), &info) == 0) {
      if (S_ISREG(info.st_mode))
        return;
      why.also = ec::config_invalid;
      why.detail = "SQLite: " + options_.path + " is not a file"
                   + (S_ISDIR(info.st_mode) ? " but a directory" : "");
    } else if (errno != ENOENT) {
      if (no_path(errno))
        why.also = ec::config_invalid;
      why.detail = "SQLite: cannot look at " + options_.path + ": "
                   + std::strerror(errno);
    } else if (::stat(directory.c_str(), &info) != 0) {
      if (no_path(errno))
        why.also = ec::config_invalid;
      why.detail
        = "SQLite: directory " + directory
          + (errno == ENOENT ? std::string{" does not exist; create it first"}
                             : std::string{": "} + std::strerror(errno));
    } else if (!create) {
      why.also = ec::schema_missing;
      why.detail = "SQLite: file " + options_.path
                   + " does not exist; run `leasehold schema apply -s "
                   + options_.display + "`";
    } else {
      return;
    }
    throw refused{why};
  }

  // Changing the mode needs the file for itself and does not call the busy
  // handler in every case.
  void use_wal() {
    for (int count = 0;; ++count) {
      try {
        std::string mode;
        *sql_ << "pragma journal_mode = wal", soci::into(mode);
        return;
      } catch (const soci::sqlite3_soci_error& e) {
        if ((e.result() & 0xFF) == SQLITE_READONLY)
          return; // reading works without
        if ((e.result() & 0xFF) != SQLITE_BUSY || on_busy(this, count) == 0)
          throw;
      }
    }
  }

  // SQLite's own waiting is unfair: its pauses grow, so that who came last
  // wins. Short random ones treat all alike.
  static int on_busy(void* self, int) {
    auto& x = *static_cast<connection*>(self);
    if (steady_clock::now() >= x.end_)
      return 0;
    std::uniform_int_distribution<int> pause{200, 1000};
    std::this_thread::sleep_for(std::chrono::microseconds{pause(x.random_)});
    return 1;
  }

  static int on_progress(void* self) {
    return steady_clock::now() >= static_cast<connection*>(self)->end_ ? 1 : 0;
  }

  sqlite_options options_;
  std::minstd_rand random_;
  steady_clock::time_point end_;
  std::optional<soci::session> sql_;
};

outcome answer(ec code, std::int64_t now, std::int64_t number,
               std::int64_t expires) {
  outcome result;
  result.code = code;
  result.now_us = now;
  result.number = number;
  result.expires_us = expires;
  return result;
}

class sqlite_store : public backend::store {
public:
  explicit sqlite_store(const sqlite_options& options) : options_(options) {
    // nop
  }

  ~sqlite_store() override {
    close();
  }

  std::vector<outcome> execute(std::span<const operation> ops) override {
    end_ = steady_clock::now() + options_.timeout;
    std::vector<outcome> results;
    results.reserve(ops.size());
    std::vector<std::size_t> chunk;
    std::size_t bytes = 0;
    auto flush = [&] {
      if (!chunk.empty())
        run(ops, chunk, results);
      chunk.clear();
      bytes = 0;
    };
    for (std::size_t i = 0; i < ops.size(); ++i) {
      results.push_back(check(ops[i], options_.max_state_bytes));
      if (!results[i].ok())
        continue;
      auto size = ops[i].state ? ops[i].state->size() : 0;
      if (chunk.size() == max_rows || bytes + size > max_bytes)
        flush();
      chunk.push_back(i);
      bytes += size;
    }
    flush();
    return results;
  }

  listing list(const list_query& query) override;

  sweep_result sweep(const sweep_query& query) override;

private:
  void open() {
    if (connection_ && !connection_->is_current())
      close();
    if (!connection_)
      connection_.emplace(options_, false, end_);
    connection_->limit(end_);
    if (!statements_)
      statements_.emplace(connection_->sql(), options_.table);
  }

  void close() noexcept {
    // A statement that outlives its session refers to freed memory.
    statements_.reset();
    if (connection_)
      connection_->abandon();
    connection_.reset();
  }

  /// Runs `body` on an open connection; whatever it throws becomes a failure,
  /// and the next call opens the file anew.
  template <class Body>
  failure guarded(Body body) {
    phase_ = phase::before_commit;
    failure result;
    if (steady_clock::now() >= end_) {
      result.code = ec::unavailable;
      result.detail = "SQLite: no time left for this operation";
      return result;
    }
    try {
      open();
      body();
      return result;
    } catch (const refused& e) {
      result = e.why;
    } catch (const std::exception& e) {
      result = to_failure(e, phase_, options_);
    }
    close();
    return result;
  }

  void commit() {
    phase_ = phase::commit;
    statements_->commit.run();
  }

  void run(std::span<const operation> ops,
           const std::vector<std::size_t>& chunk,
           std::vector<outcome>& results) {
    auto why = guarded([&] {
      if (only_reads(ops, chunk, results))
        return;
      statements_->begin_write.run();
      // After the lock is there: whoever had it before us is in the past.
      auto now = options_.clock();
      for (auto i : chunk)
        results[i] = apply(ops[i], now);
      commit();
    });
    if (why.ok())
      return;
    for (auto i : chunk) {
      results[i] = {};
      results[i].code = why.code;
      results[i].also = why.also;
      results[i].detail = why.detail;
    }
  }

  /// Tries to answer without taking the write lock: reads, and claims that
  /// are refused or were granted before. Returns false if it cannot.
  bool only_reads(std::span<const operation> ops,
                  const std::vector<std::size_t>& chunk,
                  std::vector<outcome>& results) {
    for (auto i : chunk)
      if (ops[i].kind != op_kind::acquire && ops[i].kind != op_kind::read)
        return false;
    statements_->begin.run();
    // SQLite fixes what a transaction sees at its first statement; a time
    // from before that would make a lapsed lease look held for a moment,
    // which is harmless, and never the other way round.
    auto now = options_.clock();
    auto complete = true;
    for (auto i : chunk) {
      if (ops[i].kind == op_kind::read) {
        results[i] = read(ops[i], now);
        continue;
      }
      auto found = refusal(ops[i], now);
      if (!found) {
        complete = false;
        break;
      }
      results[i] = std::move(*found);
    }
    statements_->commit.run();
    return complete;
  }

  const fields* find(const std::string& work_id) {
    auto& stmt = statements_->row;
    stmt.work_id = work_id;
    return stmt.run() ? &stmt.out : nullptr;
  }

  const fields* find_matching(const operation& op) {
    auto row = find(op.work_id);
    return row != nullptr && row->number == op.number
               && row->holder_id == op.holder_id
             ? row
             : nullptr;
  }

  prior prior_of(const std::string& work_id, const fields& row) {
    prior result;
    result.exit = exit_mode_from_store(row.previous_exit);
    result.holder_id = row.previous_holder_id;
    result.state = state_of(work_id);
    return result;
  }

  std::optional<std::string> state_of(const std::string& work_id) {
    auto& stmt = statements_->state;
    stmt.work_id = work_id;
    if (!stmt.run())
      return std::nullopt;
    return std::exchange(stmt.state, {});
  }

  /// The answer to an acquire that changes nothing, or nothing if it is a
  /// claim.
  std::optional<outcome> refusal(const operation& op, std::int64_t now) {
    auto row = find(op.work_id);
    if (row == nullptr || row->released())
      return std::nullopt;
    if (op.request != 0 && row->request == op.request
        && row->holder_id == op.holder_id) {
      auto result = answer(ec::none, now, row->number, row->expires_us);
      result.previous = prior_of(op.work_id, *row);
      return result;
    }
    if (row->expires_us < now)
      return std::nullopt;
    auto result = answer(ec::lease_held, now, row->number, row->expires_us);
    result.holder_id = row->holder_id;
    return result;
  }

  outcome acquire(const operation& op, std::int64_t now) {
    if (auto result = refusal(op, now))
      return std::move(*result);
    outcome result;
    if (auto row = find(op.work_id)) {
      result.previous.exit = row->released() ? exit_mode_from_store(row->exit)
                                             : exit_mode::expired;
      result.previous.holder_id = row->holder_id;
      result.previous.state = state_of(op.work_id);
    }
    if (!statements_->number.run()) {
      failure why;
      why.code = ec::store_failed;
      why.also = ec::schema_missing;
      why.detail = "SQLite: table " + options_.table.quoted_sequence()
                   + " is empty; run `leasehold schema apply -s "
                   + options_.display + "`";
      throw refused{why};
    }
    auto& stmt = statements_->claim;
    stmt.work_id = op.work_id;
    stmt.holder_id = op.holder_id;
    stmt.number = statements_->number.number;
    stmt.expires_us = now + op.ttl.count();
    stmt.now_us = now;
    stmt.request = op.request;
    stmt.previous_exit = to_string(result.previous.exit);
    stmt.previous_holder_id = result.previous.holder_id;
    stmt.run();
    result.number = stmt.number;
    result.now_us = now;
    result.expires_us = stmt.expires_us;
    return result;
  }

  outcome read(const operation& op, std::int64_t now) {
    auto row = find_matching(op);
    if (row == nullptr)
      return answer(ec::fenced, now, 0, 0);
    auto result = answer(ec::none, now, row->number, row->expires_us);
    result.previous = prior_of(op.work_id, *row);
    return result;
  }

  outcome checkpoint(const operation& op, std::int64_t now) {
    auto row = find_matching(op);
    if (row == nullptr)
      return answer(ec::fenced, now, 0, 0);
    if (row->released())
      return answer(ec::lease_expired, now, row->number, row->expires_us);
    auto expires
      = std::max<std::int64_t>(row->expires_us, now + op.ttl.count());
    if (op.sequence == 0 || op.sequence > row->sequence) {
      auto& stmt = statements_->checkpoint;
      stmt.work_id = op.work_id;
      stmt.expires_us = expires;
      stmt.now_us = now;
      stmt.sequence = std::max<long long>(row->sequence, op.sequence);
      stmt.state = op.state.value_or(std::string{});
      stmt.run();
      stmt.state = std::string{};
    } else {
      write(op, expires, now, {});
    }
    return answer(ec::none, now, op.number, expires);
  }

  outcome renew(const operation& op, std::int64_t now) {
    auto& stmt = statements_->renewal;
    stmt.work_id = op.work_id;
    stmt.holder_id = op.holder_id;
    stmt.number = op.number;
    stmt.now_us = now;
    stmt.expires_us = now + op.ttl.count();
    if (stmt.run())
      return answer(ec::none, now, op.number, stmt.extended_us);
    auto row = find_matching(op);
    if (row == nullptr)
      return answer(ec::fenced, now, 0, 0);
    return answer(ec::lease_expired, now, row->number, row->expires_us);
  }

  outcome release(const operation& op, std::int64_t now) {
    auto row = find_matching(op);
    if (row == nullptr)
      return answer(ec::fenced, now, 0, 0);
    if (op.repeat && row->exit == to_string(op.exit))
      return answer(ec::none, now, row->number, row->expires_us);
    if (row->released() || row->expires_us <= now)
      return answer(ec::lease_expired, now, row->number, row->expires_us);
    auto expires = now - 1000;
    write(op, expires, now, to_string(op.exit));
    return answer(ec::none, now, op.number, expires);
  }

  outcome forget(const operation& op, std::int64_t now) {
    auto row = find_matching(op);
    if (row == nullptr)
      return answer(ec::fenced, now, 0, 0);
    auto result = answer(ec::none, now, row->number, row->expires_us);
    statements_->erase.work_id = op.work_id;
    statements_->erase.run();
    return result;
  }

  void write(const operation& op, std::int64_t expires, std::int64_t now,
             std::string exit) {
    auto& stmt = statements_->expiry;
    stmt.work_id = op.work_id;
    stmt.expires_us = expires;
    stmt.now_us = now;
    stmt.exit = std::move(exit);
    stmt.run();
  }

  outcome apply(const operation& op, std::int64_t now) {
    switch (op.kind) {
      case op_kind::acquire:
        return acquire(op, now);
      case op_kind::read:
        return read(op, now);
      case op_kind::checkpoint:
        return checkpoint(op, now);
      case op_kind::renew:
        return renew(op, now);
      case op_kind::release:
        return release(op, now);
      default:
        return forget(op, now);
    }
  }

  sqlite_options options_;
  std::optional<connection> connection_;
  std::optional<statements> statements_;

  // Of the call that is under way.
  steady_clock::time_point end_;
  phase phase_ = phase::before_commit;
};

listing sqlite_store::list(const list_query& query) {
  end_ = steady_clock::now() + options_.timeout;
  listing result;
  auto why = guarded([&] {
    using namespace soci;
    auto start = query.work_id.empty() ? query.prefix : query.work_id;
    auto exclusive = !query.after.empty() && query.after >= start;
    auto from = exclusive ? query.after : start;
    backend::row next;
    long long number = 0;
    long long expires = 0;
    long long acquired = 0;
    long long updated = 0;
    long long size = 0;
    std::string exit;
    std::string previous_exit;
    std::string state;
    auto text
      = "select work_id, holder_id, fencing_token, expires_at,"
        " acquired_at, updated_at, coalesce(exit_mode, ''),"
        " prev_exit_mode, coalesce(prev_holder_id, ''),"
        " coalesce(length(checkpoint), 0), "
        + std::string{query.with_state ? "coalesce(checkpoint, x'')" : "x''"}
        + " from " + options_.table.quoted() + " where work_id "
        + (exclusive ? ">" : ">=") + " :start order by work_id";
    result.now_us = options_.clock();
    statement stmt = (connection_->sql().prepare << text, into(next.work_id),
                      into(next.holder_id), into(number), into(expires),
                      into(acquired), into(updated), into(exit),
                      into(previous_exit), into(next.previous_holder_id),
                      into(size), into(state), use(from, "start"));
    for (auto more = stmt.execute(true); more; more = stmt.fetch()) {
      auto selected = query.work_id.empty()
                        ? next.work_id.starts_with(query.prefix)
                        : next.work_id == query.work_id;
      if (!selected || (query.limit != 0 && result.rows.size() == query.limit))
        break;
      auto& row = result.rows.emplace_back(next);
      row.number = number;
      row.expires_us = expires;
      row.acquired_us = acquired;
      row.updated_us = updated;
      if (!exit.empty())
        row.exit = exit_mode_from_store(exit);
      row.previous_exit = exit_mode_from_store(previous_exit);
      if (size > 0) {
        row.state_bytes = static_cast<std::uint64_t>(size);
        if (query.with_state)
          row.state = state;
      }
    }
  });
  if (!why.ok()) {
    result = {};
    result.code = why.code;
    result.also = why.also;
    result.detail = why.detail;
  }
  return result;
}

sweep_result sqlite_store::sweep(const sweep_query& query) {
  constexpr long long page = 1000;
  end_ = steady_clock::now() + options_.timeout;
  sweep_result result;
  std::string cursor;
  for (auto more = true; more;) {
    std::uint64_t deleted = 0;
    auto why = guarded([&] {
      using namespace soci;
      statements_->begin_write.run();
      long long before = options_.clock();
      long long oldest = before - query.retention.count();
      long long expired = query.include_expired ? 1 : 0;
      auto limit = page;
      std::string work_id;
      auto& table = options_.table;
      statement stmt
        = (connection_->sql().prepare
             << "delete from " + table.quoted()
                  + " where work_id in (select work_id from " + table.quoted()
                  + " where work_id > :cursor and updated_at < :oldest"
                    " and (exit_mode = 'retired' or (:expired <> 0 and"
                    " exit_mode is null and expires_at < :now))"
                    " order by work_id limit :n) returning work_id",
           into(work_id), use(cursor, "cursor"), use(oldest, "oldest"),
           use(expired, "expired"), use(before, "now"), use(limit, "n"));
      auto highest = cursor;
      for (auto found = stmt.execute(true); found; found = stmt.fetch()) {
        highest = std::max(highest, work_id);
        ++deleted;
      }
      commit();
      cursor = highest;
    });
    if (!why.ok()) {
      result.code = why.code;
      result.also = why.also;
      result.detail = why.detail;
      return result;
    }
    result.deleted += deleted;
    more = deleted == static_cast<std::uint64_t>(page);
  }
  return result;
}

// ---------------------------------------------------------------------------

/// What would let numbers go back: a counter that is behind the rows.
void check_numbers(connection& conn, const sqlite_options& options,
                   std::vector<std::string>& problems) {
  long long last = 0;
  long long highest = 0;
  auto counter = options.table.quoted_sequence();
  conn.sql() << "select coalesce((select last_number from " + counter
                  + " where id = 1), -1), (select coalesce(max(fencing_token),"
                    " 0) from "
                  + options.table.quoted() + ")",
    soci::into(last), soci::into(highest);
  if (last < highest)
    problems.push_back("table " + counter.substr(1, counter.size() - 2)
                       + " is behind the numbers of table "
                       + options.table.plain() + ", " + std::to_string(highest)
                       + " is taken; run `leasehold schema apply -s "
                       + options.display + "`");
}

failure check_on(connection& conn, const sqlite_options& options) {
  std::vector<std::string> problems;
  auto foreign = false;
  auto look = [&](const std::string& quoted,
                  std::span<const std::string_view> columns) {
    std::map<std::string, std::string> found;
    auto name = quoted.substr(1, quoted.size() - 2);
    std::string column;
    std::string type;
    soci::statement stmt
      = (conn.sql().prepare
           << "select name, lower(type) from pragma_table_info(:table)",
         soci::into(column), soci::into(type), soci::use(name, "table"));
    for (auto more = stmt.execute(true); more; more = stmt.fetch())
      found.emplace(column, type);
    if (found.empty()) {
      problems.push_back("table " + name + " does not exist");
      return;
    }
    if (std::any_of(columns.begin(), columns.end(), [&](auto wanted) {
          auto key = wanted.substr(0, wanted.find(' '));
          return is_key_column(key) && !found.contains(std::string{key});
        }))
      foreign = true;
    for (auto wanted : columns) {
      auto blank = wanted.find(' ');
      auto pos = found.find(std::string{wanted.substr(0, blank)});
      auto label
        = "table " + name + ": column " + std::string{wanted.substr(0, blank)};
      if (pos == found.end())
        problems.push_back(label + " is missing");
      else if (pos->second != wanted.substr(blank + 1))
        problems.push_back(label + " is " + pos->second + " instead of "
                           + std::string{wanted.substr(blank + 1)});
    }
  };
  constexpr std::array<std::string_view, 12> lease_columns{
    "work_id text",        "holder_id text",        "fencing_token bigint",
    "expires_at bigint",   "exit_mode text",        "prev_exit_mode text",
    "prev_holder_id text", "acquired_at bigint",    "updated_at bigint",
    "request_id bigint",   "checkpoint_seq bigint", "checkpoint blob"};
  constexpr std::array<std::string_view, 2> counter_columns{
    "id bigint", "last_number bigint"};
  look(options.table.quoted(), lease_columns);
  look(options.table.quoted_sequence(), counter_columns);
  if (problems.empty())
    check_numbers(conn, options, problems);
  failure result;
  if (problems.empty())
    return result;
  result.code = ec::store_failed;
  if (foreign) {
    result.also = ec::not_a_store;
    result.detail = foreign_table(options.table);
    return result;
  }
  result.also = ec::schema_missing;
  for (auto& line : problems)
    result.detail += (result.detail.empty() ? "" : "\n") + line;
  return result;
}

template <class Body>
failure with_connection(const sqlite_options& options, bool create,
                        duration timeout, Body body) {
  try {
    connection conn{options, create, steady_clock::now() + timeout};
    return body(conn);
  } catch (const refused& e) {
    return e.why;
  } catch (const std::exception& e) {
    return to_failure(e, phase::before_commit, options);
  }
}

} // namespace

backend::store_ptr make_sqlite_store(const sqlite_options& options) {
  return std::make_unique<sqlite_store>(options);
}

failure check_sqlite_schema(const sqlite_options& options) {
  return with_connection(
    options, false, options.timeout,
    [&](connection& conn) { return check_on(conn, options); });
}

failure apply_sqlite_schema(const sqlite_options& options) {
  auto patient = std::max<duration>(options.timeout, std::chrono::seconds{30});
  return with_connection(options, true, patient, [&](connection& conn) {
    if (auto found = check_on(conn, options);
        found.ok() || found.also != ec::schema_missing)
      return found;
    conn.sql() << "begin immediate";
    for (auto& stmt : schema_statements(sqlite_schema, options.table))
      conn.sql() << stmt;
    // Numbers go on behind those of the rows.
    conn.sql() << "update " + options.table.quoted_sequence()
                    + " set last_number = max(last_number, (select"
                      " coalesce(max(fencing_token), 0) from "
                    + options.table.quoted() + "))";
    conn.sql() << "commit";
    return beyond_repair(check_on(conn, options), options.table);
  });
}

} // namespace leasehold::internal
