// SPDX-License-Identifier: Apache-2.0
#include "leasehold/internal/mysql_store.hpp"

#include "leasehold/internal/chunks.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
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

constexpr char quote_mark = '`';

// Beyond this, a packet gains nothing and holds its locks longer. The bytes
// double in hex, and still fit into the smallest max_allowed_packet in use,
// which is 1 MiB.
constexpr std::size_t max_rows = 256;
constexpr std::size_t max_bytes = 256 * 1024;

// Larger states travel in binary, each on its own.
constexpr std::size_t max_batched_state = 4096; // 8192 as hex, see below

constexpr chunk_limits limits{max_rows, max_bytes, max_batched_state};

// Larger states are fetched one by one, so that a reply cannot be larger than
// memory.
constexpr std::int64_t max_inline_state = 64 * 1024;

constexpr int max_repeats = 5;

// ---------------------------------------------------------------------------
// SQL. Rules that all of it follows: a transaction is one packet, so that no
// client, however slow or stopped, keeps a lock that others wait for; the
// server's clock decides, read once at the start of the packet; rows are
// locked in byte order of the work ID and before the counter, so that batches
// cannot deadlock; what is decided about a row is computed where it is locked
// and kept in @lh_out, and only the rows in there are touched after that;
// tables are joined by their key alone. The rows of a batch come as JSON in
// which all text is hex: nothing needs escaping, whatever the SQL mode. The
// syntax is common to MariaDB 10.6 and MySQL 8.0.20.

constexpr std::string_view now_sql
  = "timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))";

// For each row its holder, and whether the lease is free (2), ours by this very
// request (1), or held (0). Takes no lock.
constexpr std::string_view look_sql = R"(
select <now>;
select j.o, case when j.q <> 0 and l.request_id = j.q
      and l.exit_mode is null and l.holder_id = unhex(j.h) then 1
    when l.exit_mode is not null or l.expires_at < <now> then 2
    else 0 end,
  l.fencing_token, l.expires_at, l.holder_id, l.prev_exit_mode,
  l.prev_holder_id, l.checkpoint_bytes, <now>
from json_table('<rows>', '$[*]' columns (o int path '$[0]',
  i varchar(1024) character set latin1 path '$[1]',
  h varchar(1024) character set latin1 path '$[2]',
  q bigint path '$[4]')) j
straight_join <table> l force index (primary) on l.work_id = unhex(j.i);
)";

// Rows that are not there yet are put there first, with the number 0, so that
// all of them can be locked before the counter is.
constexpr std::string_view claim_sql = R"(
set @lh_now = <now>, @lh_in = '<rows>', @lh_out = null, @lh_most = null,
  @lh_last = null;
start transaction;
insert into <table> (work_id, holder_id, fencing_token, expires_at,
    acquired_at, updated_at)
  select unhex(j.i), '', 0, 0, 0, 0 from json_table(@lh_in, '$[*]' columns (
    i varchar(1024) character set latin1 path '$[1]')) j
  on duplicate key update fencing_token = fencing_token;
select json_arrayagg(json_array(j.o, j.i, j.h, @lh_now + j.t, j.q,
    if(l.fencing_token = 0, 'none', coalesce(l.exit_mode, 'expired')),
    if(l.fencing_token = 0, null, hex(l.holder_id)),
    coalesce(l.checkpoint_bytes, 0))), max(l.fencing_token)
  from json_table(@lh_in, '$[*]' columns (o int path '$[0]',
    i varchar(1024) character set latin1 path '$[1]',
    h varchar(1024) character set latin1 path '$[2]',
    t bigint path '$[3]', q bigint path '$[4]')) j
  straight_join <table> l force index (primary) on l.work_id = unhex(j.i)
  where l.exit_mode is not null or l.expires_at < @lh_now
  for update into @lh_out, @lh_most;
update <counter> set last_number = greatest(last_number, coalesce(@lh_most, 0))
    + coalesce(json_length(@lh_out), 0) where id = 1;
select last_number - json_length(@lh_out) into @lh_last
  from <counter> where id = 1;
update json_table(@lh_out, '$[*]' columns (n for ordinality,
    i varchar(1024) character set latin1 path '$[1]',
    h varchar(1024) character set latin1 path '$[2]',
    e bigint path '$[3]', q bigint path '$[4]',
    x varchar(16) character set latin1 path '$[5]',
    p varchar(1024) character set latin1 path '$[6]')) g
  straight_join <table> l force index (primary) on l.work_id = unhex(g.i)
  set l.holder_id = unhex(g.h), l.fencing_token = @lh_last + g.n,
    l.expires_at = g.e, l.exit_mode = null, l.prev_exit_mode = g.x,
    l.prev_holder_id = unhex(g.p), l.acquired_at = @lh_now,
    l.updated_at = @lh_now, l.request_id = nullif(g.q, 0),
    l.checkpoint_seq = null;
commit;
select g.o, @lh_now, @lh_last + g.n, g.e, g.x, unhex(g.p), g.b,
    if(g.b <= <inline>, l.checkpoint, null)
  from json_table(@lh_out, '$[*]' columns (n for ordinality,
    o int path '$[0]', i varchar(1024) character set latin1 path '$[1]',
    e bigint path '$[3]', x varchar(16) character set latin1 path '$[5]',
    p varchar(1024) character set latin1 path '$[6]',
    b bigint path '$[7]')) g
  left join <table> l force index (primary) on l.work_id = unhex(g.i)
    and l.fencing_token = @lh_last + g.n;
)";

constexpr std::string_view read_sql = R"(
select <now>;
select j.o, l.expires_at, l.prev_exit_mode, l.prev_holder_id,
  l.checkpoint_bytes, if(l.checkpoint_bytes <= <inline>, l.checkpoint, null)
from json_table('<rows>', '$[*]' columns (o int path '$[0]',
  i varchar(1024) character set latin1 path '$[1]',
  h varchar(1024) character set latin1 path '$[2]',
  n bigint path '$[3]')) j
straight_join <table> l force index (primary) on l.work_id = unhex(j.i)
where l.holder_id = unhex(j.h) and l.fencing_token = j.n;
)";

// Of the packets below, outcome 0 is ok, 1 expired, 2 ok without a write; no
// row means fenced.

constexpr std::string_view renew_sql = R"(
set @lh_now = <now>, @lh_out = null;
start transaction;
select json_arrayagg(json_array(j.o, j.i,
    if(l.exit_mode is not null or l.expires_at <= @lh_now, 1, 0),
    if(l.exit_mode is not null or l.expires_at <= @lh_now, l.expires_at,
      greatest(l.expires_at, @lh_now + j.t))))
  from json_table('<rows>', '$[*]' columns (o int path '$[0]',
    i varchar(1024) character set latin1 path '$[1]',
    h varchar(1024) character set latin1 path '$[2]',
    n bigint path '$[3]', t bigint path '$[4]')) j
  straight_join <table> l force index (primary) on l.work_id = unhex(j.i)
  where l.holder_id = unhex(j.h) and l.fencing_token = j.n
  for update into @lh_out;
update json_table(@lh_out, '$[*]' columns (
    i varchar(1024) character set latin1 path '$[1]',
    r int path '$[2]', e bigint path '$[3]')) g
  straight_join <table> l force index (primary) on l.work_id = unhex(g.i)
  set l.expires_at = g.e, l.updated_at = @lh_now where g.r = 0;
commit;
<answer>
)";

// A state of one row may stand in @lh_state instead of in the JSON. What is
// older than the stored state extends the lease and leaves the state alone.
constexpr std::string_view checkpoint_sql = R"(
set @lh_now = <now>, @lh_out = null;
start transaction;
select json_arrayagg(json_array(j.o, j.i,
    if(l.exit_mode is not null, 1, 0),
    if(l.exit_mode is not null, l.expires_at,
      greatest(l.expires_at, @lh_now + j.t)),
    if(j.q = 0 or j.q > coalesce(l.checkpoint_seq, 0), 1, 0),
    greatest(coalesce(l.checkpoint_seq, 0), j.q)<carried>))
  from json_table('<rows>', '$[*]' columns (o int path '$[0]',
    i varchar(1024) character set latin1 path '$[1]',
    h varchar(1024) character set latin1 path '$[2]',
    n bigint path '$[3]', t bigint path '$[4]', q bigint path '$[5]'<column>)) j
  straight_join <table> l force index (primary) on l.work_id = unhex(j.i)
  where l.holder_id = unhex(j.h) and l.fencing_token = j.n
  for update into @lh_out;
update json_table(@lh_out, '$[*]' columns (
    i varchar(1024) character set latin1 path '$[1]', r int path '$[2]',
    e bigint path '$[3]', f int path '$[4]')) g
  straight_join <table> l force index (primary) on l.work_id = unhex(g.i)
  set l.expires_at = g.e, l.updated_at = @lh_now where g.r = 0 and g.f = 0;
update json_table(@lh_out, '$[*]' columns (
    i varchar(1024) character set latin1 path '$[1]', r int path '$[2]',
    e bigint path '$[3]', f int path '$[4]', q bigint path '$[5]'<column>)) g
  straight_join <table> l force index (primary) on l.work_id = unhex(g.i)
  set l.expires_at = g.e, l.updated_at = @lh_now,
    l.checkpoint = <state>, l.checkpoint_bytes = octet_length(<state>),
    l.checkpoint_seq = g.q where g.r = 0 and g.f = 1;
commit;
<answer>
)";

constexpr std::string_view release_sql = R"(
set @lh_now = <now>, @lh_out = null;
start transaction;
select json_arrayagg(json_array(j.o, j.i,
    case when j.a <> 0 and l.exit_mode = j.m then 2
      when l.exit_mode is not null or l.expires_at <= @lh_now then 1
      else 0 end,
    if(l.exit_mode is not null or l.expires_at <= @lh_now, l.expires_at,
      @lh_now - 1000), j.m))
  from json_table('<rows>', '$[*]' columns (o int path '$[0]',
    i varchar(1024) character set latin1 path '$[1]',
    h varchar(1024) character set latin1 path '$[2]',
    n bigint path '$[3]', m varchar(16) character set ascii path '$[4]',
    a int path '$[5]')) j
  straight_join <table> l force index (primary) on l.work_id = unhex(j.i)
  where l.holder_id = unhex(j.h) and l.fencing_token = j.n
  for update into @lh_out;
update json_table(@lh_out, '$[*]' columns (
    i varchar(1024) character set latin1 path '$[1]', r int path '$[2]',
    e bigint path '$[3]', m varchar(16) character set ascii path '$[4]')) g
  straight_join <table> l force index (primary) on l.work_id = unhex(g.i)
  set l.exit_mode = g.m, l.expires_at = g.e, l.updated_at = @lh_now
  where g.r = 0;
commit;
<answer>
)";

constexpr std::string_view forget_sql = R"(
set @lh_now = <now>, @lh_out = null;
start transaction;
select json_arrayagg(json_array(j.o, j.i, 0, l.expires_at))
  from json_table('<rows>', '$[*]' columns (o int path '$[0]',
    i varchar(1024) character set latin1 path '$[1]',
    h varchar(1024) character set latin1 path '$[2]',
    n bigint path '$[3]')) j
  straight_join <table> l force index (primary) on l.work_id = unhex(j.i)
  where l.holder_id = unhex(j.h) and l.fencing_token = j.n
  for update into @lh_out;
delete l from json_table(@lh_out, '$[*]' columns (
    i varchar(1024) character set latin1 path '$[1]')) g
  straight_join <table> l force index (primary) on l.work_id = unhex(g.i);
commit;
<answer>
)";

// Behind the commit, and with it outside of all locks.
constexpr std::string_view answer_sql = R"(select @lh_now;
select g.o, g.r, g.e from json_table(@lh_out, '$[*]' columns (
  o int path '$[0]', r int path '$[2]', e bigint path '$[3]')) g;)";

constexpr std::string_view list_sql = R"(
select <now>;
select work_id, holder_id, fencing_token, expires_at, acquired_at, updated_at,
  exit_mode, prev_exit_mode, prev_holder_id, checkpoint_bytes, <state>
from <table> where work_id <compare> unhex('<start>')
order by work_id limit <limit>;
)";

// Looks without locks, locks what it found and is not in use, and looks again.
constexpr std::string_view sweep_sql = R"(
set @lh_now = <now>, @lh_in = null, @lh_out = null;
select json_arrayagg(json_array(hex(c.work_id))) into @lh_in from (
  select work_id from <table>
  where work_id > unhex('<start>') and updated_at < @lh_now - <retention>
    and (exit_mode = 'retired' or (<expired> <> 0 and exit_mode is null
      and expires_at < @lh_now))
  order by work_id limit <limit>) c;
start transaction;
select json_arrayagg(json_array(j.i)) from json_table(@lh_in, '$[*]' columns (
    i varchar(1024) character set latin1 path '$[0]')) j
  straight_join <table> l force index (primary) on l.work_id = unhex(j.i)
  where l.updated_at < @lh_now - <retention>
    and (l.exit_mode = 'retired' or (<expired> <> 0 and l.exit_mode is null
      and l.expires_at < @lh_now))
  for update skip locked into @lh_out;
delete l from json_table(@lh_out, '$[*]' columns (
    i varchar(1024) character set latin1 path '$[0]')) g
  straight_join <table> l force index (primary) on l.work_id = unhex(g.i);
commit;
select coalesce(json_length(@lh_in), 0), coalesce(json_length(@lh_out), 0),
  max(unhex(j.i)) from json_table(@lh_in, '$[*]' columns (
    i varchar(1024) character set latin1 path '$[0]')) j;
)";

// ---------------------------------------------------------------------------

void replace_all(std::string& text, std::string_view from,
                 std::string_view to) {
  for (auto pos = text.find(from); pos != std::string::npos;
       pos = text.find(from, pos + to.size()))
    text.replace(pos, from.size(), to);
}

std::string hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result;
  result.reserve(bytes.size() * 2);
  for (auto c : bytes) {
    auto byte = static_cast<unsigned char>(c);
    result += digits[byte >> 4];
    result += digits[byte & 0xF];
  }
  return result;
}

/// The statements of one packet.
struct packet {
  std::string text;

  /// Position of the commit; none if the packet changes nothing.
  std::optional<std::size_t> commit;

  /// With its variables filled in.
  std::string with(std::string_view name, std::string_view value) const {
    auto result = text;
    replace_all(result, name, value);
    return result;
  }
};

packet make_packet(std::string_view sql, const table_name& table) {
  packet result;
  auto& text = result.text;
  text = sql.substr(sql.find_first_not_of('\n'));
  replace_all(text, "<answer>", answer_sql);
  replace_all(text, "<now>", now_sql);
  replace_all(text, "<table>", table.quoted(quote_mark));
  replace_all(text, "<counter>", table.quoted_sequence(quote_mark));
  while (text.back() == '\n' || text.back() == ';')
    text.pop_back();
  if (auto pos = text.find("\ncommit;"); pos != std::string::npos)
    result.commit = static_cast<std::size_t>(
      std::count(text.begin(), text.begin() + static_cast<long>(pos), ';'));
  return result;
}

/// A JSON array of arrays, one for each operation of a batch.
class json_rows {
public:
  void begin(std::size_t ordinal) {
    text_ += text_.empty() ? "[[" : ",[";
    text_ += std::to_string(ordinal);
  }

  void add(std::int64_t number) {
    text_ += ',';
    text_ += std::to_string(number);
  }

  void add_hex(std::string_view bytes) {
    text_ += ",\"";
    text_ += hex(bytes);
    text_ += '"';
  }

  /// Text of letters alone.
  void add_word(std::string_view word) {
    text_ += ",\"";
    text_ += word;
    text_ += '"';
  }

  void add_null() {
    text_ += ",null";
  }

  void end() {
    text_ += ']';
  }

  std::string finish() {
    return std::move(text_) + ']';
  }

private:
  std::string text_;
};

// ---------------------------------------------------------------------------

/// What an error number means to us. The one place that knows.
struct verdict {
  ec code = ec::store_failed;
  ec also = ec::none;

  /// The server asks to run the same transaction again.
  bool again = false;

  /// It waited for a lock before it said so.
  bool waited = false;

  /// Another connection may do better.
  bool reconnect = false;

  /// One row of the batch is at fault.
  bool is_data = false;

  /// The message holds names of tables and users, but no values.
  bool is_harmless = false;

  /// What to do, for people.
  std::string_view advice = {};
};

verdict classify(unsigned number) {
  verdict result;
  switch (number) {
    case 1205: // lock wait timeout
      result.waited = true;
      [[fallthrough]];
    case 1020: // the record has changed since it was read
    case 1213: // deadlock; on a Galera cluster also a lost certification
      result.code = ec::unavailable;
      result.again = true;
      result.is_harmless = true;
      return result;
    case 1047: // a cluster node that is not ready
    case 1053: // shutdown
    case 1290: // read-only server
    case 1792: // read-only transaction
    case 1836: // read-only mode
    case 1927: // connection killed
    case 4031: // idle for too long
      result.code = ec::unavailable;
      result.reconnect = true;
      result.is_harmless = true;
      return result;
    case 1021: // disk full
    case 1037: // memory
    case 1038:
    case 1040: // connections
    case 1041:
    case 1114: // table full
    case 1203:
    case 1206: // lock table full
    case 1226: // a limit of the user
    case 1317: // query killed
    case 1637: // transactions
    case 1969: // time limit, MariaDB
    case 3024: // time limit, MySQL
      result.code = ec::unavailable;
      result.is_harmless = true;
      return result;
    case 1048: // no number: the counter has no row
      result.also = ec::schema_missing;
      return result;
    case 1049: // no database
    case 1054: // no column
    case 1146: // no table
    case 1364: // a column of somebody else without a default
      result.also = ec::schema_missing;
      result.is_harmless = true;
      return result;
    case 1264: // out of range
    case 1292:
    case 1366:
    case 1406: // too long
      result.code = ec::invalid_argument;
      result.is_data = true;
      return result;
    case 1062: // a unique key of somebody else
    case 1452: // a foreign key of somebody else
      result.is_data = true;
      return result;
    case 3819: // check constraint, MySQL
    case 4025: // check constraint, MariaDB
      result.is_data = true;
      result.is_harmless = true;
      return result;
    case 1118: // larger than a tenth of the redo log
    case 1153: // packet too large
    case 1301:
    case 2020:
      result.code = ec::state_too_large;
      result.is_harmless = true;
      result.advice = "store less, or raise max_allowed_packet and "
                      "innodb_log_file_size on the server";
      return result;
    case 1044: // permissions
    case 1142:
    case 1143:
      result.is_harmless = true;
      result.advice = "grant the user select, insert, update and delete on the "
                      "table and on its counter";
      return result;
    case 1665:
      result.is_harmless = true;
      result.advice = "set binlog_format to row or mixed on the server";
      return result;
    default:
      return result;
  }
}

/// Whether a packet may have had its effect though it was not answered as it
/// should. Nothing is applied before its commit.
bool is_uncertain(const mysql_reply& res, const packet& sql) {
  if (!sql.commit)
    return false;
  if (res.state == mysql_reply::status::lost)
    return res.sent;
  // Where a commit asks for a repeat, as on a cluster, it was rolled back.
  return res.position > *sql.commit
         || (res.position == *sql.commit && !classify(res.number).again);
}

failure explained(const mysql_reply& res, const mysql_options& options,
                  bool uncertain) {
  failure result;
  auto known = classify(res.number);
  if (res.state == mysql_reply::status::lost) {
    result.code = uncertain ? ec::unknown_outcome : ec::unavailable;
    result.detail = "MySQL: " + res.message;
    if (res.number == 2020)
      result.code = known.code;
    return result;
  }
  result.code = uncertain ? ec::unknown_outcome : known.code;
  result.also = uncertain ? ec::none : known.also;
  result.detail
    = "MySQL: "
      + (known.is_harmless ? res.message : std::string{"the server refused it"})
      + " (error " + std::to_string(res.number) + ")";
  if (known.also == ec::schema_missing)
    result.detail += "; run `leasehold schema apply -s " + options.display
                     + "` for table " + options.table.plain();
  else if (!known.advice.empty())
    result.detail += "; " + std::string{known.advice};
  return result;
}

template <class Result>
void take_failure(Result& out, const failure& why) {
  out = {};
  out.code = why.code;
  out.also = why.also;
  out.detail = why.detail;
}

class mysql_store : public backend::store {
public:
  explicit mysql_store(const mysql_options& options)
    : options_(options), connection_(options.connection),
      look_(make_packet(look_sql, options.table)),
      claim_(make_packet(claim_sql, options.table)),
      read_(make_packet(read_sql, options.table)),
      checkpoint_(make_packet(checkpoint_sql, options.table)),
      large_checkpoint_(checkpoint_),
      renew_(make_packet(renew_sql, options.table)),
      release_(make_packet(release_sql, options.table)),
      forget_(make_packet(forget_sql, options.table)),
      list_(make_packet(list_sql, options.table)),
      sweep_(make_packet(sweep_sql, options.table)) {
    auto inline_limit = std::to_string(max_inline_state);
    replace_all(claim_.text, "<inline>", inline_limit);
    read_one_ = read_;
    replace_all(read_.text, "<inline>", inline_limit);
    replace_all(read_one_.text, "<inline>",
                std::to_string(std::numeric_limits<std::int64_t>::max()));
    auto& small = checkpoint_.text;
    replace_all(small, "<carried>", ", j.s");
    replace_all(small, "<column>",
                ", s varchar(8192) character set latin1 path '$[6]'");
    replace_all(small, "<state>", "unhex(g.s)");
    auto& large = large_checkpoint_.text;
    replace_all(large, "<carried>", "");
    replace_all(large, "<column>", "");
    replace_all(large, "<state>", "@lh_state");
    // It need not stay with the session.
    large += ";\nset @lh_state = null";
  }

  std::vector<outcome> execute(std::span<const operation> ops) override {
    start_call();
    ops_ = ops;
    results_.clear();
    results_.reserve(ops.size());
    for (auto& op : ops)
      results_.push_back(check(op, options_.max_state_bytes));
    for (auto& part : backend::split_by_work_id(ops)) {
      std::array<indexes, static_cast<std::size_t>(backend::last_op_kind) + 1>
        by_kind;
      for (auto i : part)
        if (results_[i].ok())
          by_kind[static_cast<std::size_t>(ops[i].kind)].push_back(i);
      // What keeps leases alive goes first.
      for (auto kind : {op_kind::renew, op_kind::checkpoint, op_kind::release,
                        op_kind::forget, op_kind::acquire, op_kind::read})
        run_kind(kind, by_kind[static_cast<std::size_t>(kind)]);
    }
    ops_ = {};
    return std::move(results_);
  }

  listing list(const list_query& query) override;

  sweep_result sweep(const sweep_query& query) override;

private:
  void start_call() {
    end_ = limit_clock::now() + options_.connection.timeout;
    gone_ = false;
  }

  bool is_large(std::size_t i) const {
    return internal::is_large(ops_[i], limits);
  }

  void run_kind(op_kind kind, indexes& all) {
    sort_by_work_id(ops_, all);
    for_each_chunk(ops_, all, limits,
                   [&](const indexes& chunk) { run_chunk(kind, chunk); });
  }

  void run_chunk(op_kind kind, const indexes& chunk) {
    if (kind == op_kind::acquire)
      acquire(chunk);
    else if (kind == op_kind::read)
      read(chunk);
    else if (kind == op_kind::checkpoint && is_large(chunk.front()))
      large_checkpoint(chunk.front());
    else
      change(kind, chunk);
  }

  /// Runs a packet, again where the server asks for it.
  mysql_reply run(const packet& sql, const std::string& text) {
    mysql_reply result;
    if (gone_ || limit_clock::now() >= end_) {
      result.message = "no time left for this operation";
      return result;
    }
    for (int i = 0; i < max_repeats; ++i) {
      result = connection_.run(text, end_);
      if (result.state != mysql_reply::status::refused)
        break;
      auto known = classify(result.number);
      end_transaction(sql, known);
      if (!known.again || is_uncertain(result, sql) || !may_repeat(known))
        break;
    }
    // The rest of the call does not wait for a server that does not answer.
    gone_ = result.state == mysql_reply::status::lost;
    return result;
  }

  /// What an error left open is rolled back, by the server itself if it comes
  /// to the worst.
  void end_transaction(const packet& sql, const verdict& known) {
    if (known.reconnect
        || (sql.commit && !connection_.run("rollback", end_).ok()))
      connection_.drop();
  }

  /// Whether a repeat would be answered before the call has to end.
  bool may_repeat(const verdict& known) const {
    auto needed = options_.connection.timeout / 10;
    if (known.waited)
      needed += connection_.lock_limit();
    return limit_clock::now() + needed < end_;
  }

  /// After an error: either runs the rows one by one, or gives all of them
  /// the reason.
  void failed(const indexes& chunk, const mysql_reply& res, const packet& sql,
              op_kind kind) {
    auto uncertain = is_uncertain(res, sql);
    if (res.state == mysql_reply::status::refused && !uncertain
        && chunk.size() > 1 && classify(res.number).is_data) {
      for (auto i : chunk)
        run_chunk(kind, {i});
      return;
    }
    auto why = explained(res, options_, uncertain);
    for (auto i : chunk)
      take_failure(results_[i], why);
  }

  void add_token(json_rows& rows, std::size_t ordinal, const operation& op) {
    rows.begin(ordinal);
    rows.add_hex(op.work_id);
    rows.add_hex(op.holder_id);
    rows.add(op.number);
  }

  void acquire(indexes chunk) {
    indexes stored;
    for (int round = 0; round < max_repeats && !chunk.empty(); ++round) {
      auto free = look(chunk, stored);
      if (!free)
        return;
      chunk = std::move(*free);
      if (chunk.empty() || !claim(chunk, stored))
        break;
    }
    // Every round lost a race for these: somebody has them.
    for (auto i : chunk)
      if (results_[i].ok() && results_[i].number == 0)
        results_[i].code = ec::lease_held;
    for (auto i : stored)
      fetch_prior_state(i);
  }

  std::string acquire_rows(const indexes& chunk) {
    json_rows rows;
    for (auto i : chunk) {
      rows.begin(i);
      rows.add_hex(ops_[i].work_id);
      rows.add_hex(ops_[i].holder_id);
      rows.add(ops_[i].ttl.count());
      rows.add(ops_[i].request);
      rows.end();
    }
    return rows.finish();
  }

  /// Answers those that are held, and those that this very request got before.
  /// Returns the others, or nothing after an error. Adds to `stored` what has
  /// a prior state that is still to be fetched.
  std::optional<indexes> look(const indexes& chunk, indexes& stored) {
    auto res = run(look_, look_.with("<rows>", acquire_rows(chunk)));
    if (!res.ok()) {
      failed(chunk, res, look_, op_kind::acquire);
      return std::nullopt;
    }
    auto& clock = res.results.front();
    clock.next();
    for (auto i : chunk)
      results_[i].now_us = clock.integer(0);
    auto& found = res.rows();
    while (found.next()) {
      auto i = static_cast<std::size_t>(found.integer(0));
      auto& result = results_[i];
      auto state = found.integer(1);
      if (state == 2)
        continue;
      result.now_us = found.integer(8);
      result.number = found.integer(2);
      result.expires_us = found.integer(3);
      if (state == 0) {
        result.code = ec::lease_held;
        result.holder_id = found.bytes(4);
        continue;
      }
      result.previous.exit = exit_mode_from_store(found.bytes(5));
      result.previous.holder_id = found.bytes(6);
      if (found.integer(7) > 0)
        stored.push_back(i);
    }
    return undecided(chunk);
  }

  indexes undecided(const indexes& chunk) const {
    indexes result;
    for (auto i : chunk)
      if (results_[i].ok() && results_[i].number == 0)
        result.push_back(i);
    return result;
  }

  /// Claims what looked free. Leaves in `chunk` those that somebody else got
  /// in between. Returns false after an error.
  bool claim(indexes& chunk, indexes& stored) {
    auto res = run(claim_, claim_.with("<rows>", acquire_rows(chunk)));
    if (!res.ok()) {
      failed(chunk, res, claim_, op_kind::acquire);
      chunk.clear();
      return false;
    }
    auto& granted = res.rows();
    while (granted.next()) {
      auto i = static_cast<std::size_t>(granted.integer(0));
      auto& result = results_[i];
      result.now_us = granted.integer(1);
      result.number = granted.integer(2);
      result.expires_us = granted.integer(3);
      result.previous.exit = exit_mode_from_store(granted.bytes(4));
      result.previous.holder_id = granted.bytes(5);
      // Also what is already somebody else's again, which cannot be read any
      // more: fetching it will say so.
      if (!take_state(granted, 6, result.previous.state))
        stored.push_back(i);
    }
    chunk = undecided(chunk);
    return true;
  }

  /// Reads a size and a state. Returns false if the state was too large to
  /// come along.
  static bool take_state(const mysql_rows& row, unsigned column,
                         std::optional<std::string>& out) {
    out.reset();
    if (row.integer(column) == 0)
      return true;
    if (row.is_null(column + 1))
      return false;
    out.emplace(row.bytes(column + 1));
    return true;
  }

  void fetch_prior_state(std::size_t i) {
    auto op = ops_[i];
    op.number = results_[i].number;
    auto found = read_one(op);
    if (found.ok()) {
      results_[i].previous = std::move(found.previous);
      return;
    }
    results_[i] = {};
    results_[i].code = ec::unknown_outcome;
    results_[i].detail = "the lease was granted, but its state could not be "
                         "read: "
                         + found.detail;
  }

  static void take_prior(const mysql_rows& row, outcome& out) {
    out.code = ec::none;
    out.expires_us = row.integer(1);
    out.previous.exit = exit_mode_from_store(row.bytes(2));
    out.previous.holder_id = row.bytes(3);
  }

  /// Reads one row with its state, however large that is.
  outcome read_one(const operation& op) {
    json_rows rows;
    add_token(rows, 0, op);
    rows.end();
    auto res = run(read_one_, read_one_.with("<rows>", rows.finish()));
    outcome result;
    if (!res.ok()) {
      take_failure(result, explained(res, options_, false));
      return result;
    }
    auto& clock = res.results.front();
    clock.next();
    result.code = ec::fenced;
    result.now_us = clock.integer(0);
    if (res.rows().next()) {
      result.number = op.number;
      take_prior(res.rows(), result);
      take_state(res.rows(), 4, result.previous.state);
    }
    return result;
  }

  void read(const indexes& chunk) {
    json_rows rows;
    for (auto i : chunk) {
      add_token(rows, i, ops_[i]);
      rows.end();
    }
    auto res = run(read_, read_.with("<rows>", rows.finish()));
    if (!res.ok()) {
      failed(chunk, res, read_, op_kind::read);
      return;
    }
    auto& clock = res.results.front();
    clock.next();
    for (auto i : chunk) {
      results_[i].code = ec::fenced;
      results_[i].now_us = clock.integer(0);
    }
    indexes large;
    auto& found = res.rows();
    while (found.next()) {
      auto i = static_cast<std::size_t>(found.integer(0));
      results_[i].number = ops_[i].number;
      take_prior(found, results_[i]);
      if (!take_state(found, 4, results_[i].previous.state))
        large.push_back(i);
    }
    for (auto i : large)
      results_[i] = read_one(ops_[i]);
  }

  const packet& packet_of(op_kind kind) const {
    switch (kind) {
      case op_kind::renew:
        return renew_;
      case op_kind::checkpoint:
        return checkpoint_;
      case op_kind::release:
        return release_;
      default:
        return forget_;
    }
  }

  /// renew, checkpoint, release and forget.
  void change(op_kind kind, const indexes& chunk) {
    json_rows rows;
    for (auto i : chunk) {
      auto& op = ops_[i];
      add_token(rows, i, op);
      if (kind == op_kind::renew || kind == op_kind::checkpoint)
        rows.add(op.ttl.count());
      if (kind == op_kind::checkpoint) {
        rows.add(op.sequence);
        if (op.state && !op.state->empty())
          rows.add_hex(*op.state);
        else
          rows.add_null();
      }
      if (kind == op_kind::release) {
        rows.add_word(to_string(op.exit));
        rows.add(op.repeat ? 1 : 0);
      }
      rows.end();
    }
    auto& sql = packet_of(kind);
    take_changed(kind, chunk, sql, run(sql, sql.with("<rows>", rows.finish())));
  }

  /// The state goes ahead in a packet that changes nothing, so that no lock is
  /// held while it travels.
  void large_checkpoint(std::size_t i) {
    auto& op = ops_[i];
    json_rows rows;
    add_token(rows, i, op);
    rows.add(op.ttl.count());
    rows.add(op.sequence);
    rows.end();
    auto text = large_checkpoint_.with("<rows>", rows.finish());
    mysql_reply res;
    res.message = "no time left for this operation";
    if (!gone_)
      res = connection_.connect(end_);
    if (res.ok()) {
      auto most = connection_.max_packet();
      if (most != 0 && op.state->size() > most) {
        results_[i].code = ec::state_too_large;
        results_[i].detail
          = "the state is larger than max_allowed_packet of the server, which "
            "is "
            + std::to_string(most) + " bytes; raise it, or store less";
        return;
      }
      res = connection_.upload(*op.state, end_);
    }
    if (!res.ok()) {
      gone_ = res.state == mysql_reply::status::lost;
      failed({i}, res, read_, op_kind::checkpoint);
      return;
    }
    take_changed(op_kind::checkpoint, {i}, large_checkpoint_,
                 run(large_checkpoint_, text));
  }

  void take_changed(op_kind kind, const indexes& chunk, const packet& sql,
                    mysql_reply res) {
    if (!res.ok()) {
      failed(chunk, res, sql, kind);
      return;
    }
    auto& clock = res.results.front();
    clock.next();
    for (auto i : chunk) {
      results_[i].code = ec::fenced;
      results_[i].now_us = clock.integer(0);
    }
    auto& found = res.rows();
    while (found.next()) {
      auto i = static_cast<std::size_t>(found.integer(0));
      results_[i].code = found.integer(1) == 1 ? ec::lease_expired : ec::none;
      results_[i].number = ops_[i].number;
      results_[i].expires_us = found.integer(2);
    }
  }

  mysql_reply list_page(std::string_view start, bool inclusive,
                        std::size_t limit, std::int64_t inline_limit);

  mysql_options options_;
  mysql_connection connection_;

  packet look_;
  packet claim_;
  packet read_;
  packet read_one_;
  packet checkpoint_;
  packet large_checkpoint_;
  packet renew_;
  packet release_;
  packet forget_;
  packet list_;
  packet sweep_;

  // Of the call that is under way.
  limit_clock::time_point end_;
  bool gone_ = false;
  std::span<const operation> ops_;
  std::vector<outcome> results_;
};

backend::row to_row(const mysql_rows& from) {
  backend::row result;
  result.work_id = from.bytes(0);
  result.holder_id = from.bytes(1);
  result.number = from.integer(2);
  result.expires_us = from.integer(3);
  result.acquired_us = from.integer(4);
  result.updated_us = from.integer(5);
  if (!from.is_null(6))
    result.exit = exit_mode_from_store(from.bytes(6));
  result.previous_exit = exit_mode_from_store(from.bytes(7));
  result.previous_holder_id = from.bytes(8);
  if (auto size = from.integer(9); size > 0)
    result.state_bytes = static_cast<std::uint64_t>(size);
  return result;
}

mysql_reply mysql_store::list_page(std::string_view start, bool inclusive,
                                   std::size_t limit,
                                   std::int64_t inline_limit) {
  auto text = list_.with("<compare>", inclusive ? ">=" : ">");
  replace_all(text, "<start>", hex(start));
  replace_all(text, "<limit>", std::to_string(limit));
  replace_all(text, "<state>",
              inline_limit < 0
                ? "null"
                : "if(checkpoint_bytes <= " + std::to_string(inline_limit)
                    + ", checkpoint, null)");
  return run(list_, text);
}

listing mysql_store::list(const list_query& query) {
  start_call();
  listing result;
  auto start = query.work_id.empty() ? query.prefix : query.work_id;
  auto inclusive = query.after.empty() || query.after < start;
  std::string cursor{inclusive ? start : query.after};
  auto fail = [&](const mysql_reply& res) {
    take_failure(result, explained(res, options_, false));
    return result;
  };
  for (;;) {
    auto wanted = max_rows;
    if (!query.work_id.empty())
      wanted = 1;
    else if (query.limit != 0)
      wanted = std::min<std::size_t>(wanted, query.limit - result.rows.size());
    auto res = list_page(cursor, inclusive, wanted,
                         query.with_state ? max_inline_state : -1);
    if (!res.ok())
      return fail(res);
    auto& clock = res.results.front();
    clock.next();
    result.now_us = clock.integer(0);
    auto& found = res.rows();
    while (found.next()) {
      auto next = to_row(found);
      cursor = next.work_id;
      auto selected = query.work_id.empty()
                        ? next.work_id.starts_with(query.prefix)
                        : next.work_id == query.work_id;
      if (!selected)
        return result;
      if (query.with_state && next.state_bytes) {
        if (!found.is_null(10)) {
          next.state.emplace(found.bytes(10));
        } else {
          auto again = list_page(next.work_id, true, 1,
                                 std::numeric_limits<std::int64_t>::max());
          if (!again.ok())
            return fail(again);
          // It may be gone, or have changed since.
          if (!again.rows().next() || again.rows().bytes(0) != next.work_id)
            continue;
          next = to_row(again.rows());
          if (next.state_bytes)
            next.state.emplace(again.rows().bytes(10));
        }
      }
      result.rows.push_back(std::move(next));
    }
    if (found.size() < wanted
        || (query.limit != 0 && result.rows.size() >= query.limit))
      return result;
    inclusive = false;
  }
}

sweep_result mysql_store::sweep(const sweep_query& query) {
  constexpr std::int64_t page = 500;
  start_call();
  sweep_result result;
  std::string cursor;
  for (;;) {
    auto text = sweep_.with("<start>", hex(cursor));
    replace_all(text, "<retention>", std::to_string(query.retention.count()));
    replace_all(text, "<expired>", query.include_expired ? "1" : "0");
    replace_all(text, "<limit>", std::to_string(page));
    auto res = run(sweep_, text);
    if (!res.ok()) {
      auto deleted = result.deleted;
      take_failure(result, explained(res, options_, is_uncertain(res, sweep_)));
      result.deleted = deleted;
      return result;
    }
    auto& found = res.rows();
    found.next();
    result.deleted += static_cast<std::uint64_t>(found.integer(1));
    if (found.integer(0) < page)
      return result;
    cursor = found.bytes(2);
  }
}

// ---------------------------------------------------------------------------

// All processes that apply a schema agree on this name.
constexpr std::string_view apply_lock = "leasehold schema";

struct column {
  std::string_view name;
  std::string_view type;
};

constexpr std::array<column, 13> lease_columns{{
  {"work_id", "varbinary(512)"},
  {"holder_id", "varbinary(512)"},
  {"fencing_token", "bigint"},
  {"expires_at", "bigint"},
  {"exit_mode", "varchar(16)"},
  {"prev_exit_mode", "varchar(16)"},
  {"prev_holder_id", "varbinary(512)"},
  {"acquired_at", "bigint"},
  {"updated_at", "bigint"},
  {"request_id", "bigint"},
  {"checkpoint_seq", "bigint"},
  {"checkpoint_bytes", "bigint"},
  {"checkpoint", "longblob"},
}};

constexpr std::array<column, 2> counter_columns{{
  {"id", "tinyint"},
  {"last_number", "bigint"},
}};

/// Compares a database with what the store needs.
class schema_check {
public:
  schema_check(mysql_connection& connection, const mysql_options& options,
               limit_clock::time_point end)
    : connection_(connection), options_(options), end_(end) {
    // nop
  }

  failure run() {
    look_at(options_.table.base, lease_columns, "work_id");
    look_at(options_.table.sequence_base(), counter_columns, "id");
    if (problems_.empty() && why_.ok())
      look_at_counter();
    auto shape_differs = !problems_.empty();
    // Rights that are missing are not a matter of the schema.
    if (problems_.empty() && why_.ok())
      look_at_rights();
    if (!why_.ok() || problems_.empty())
      return why_;
    failure result;
    result.code = ec::store_failed;
    if (shape_differs)
      result.also = ec::schema_missing;
    for (auto& line : problems_)
      result.detail += (result.detail.empty() ? "" : "\n") + line;
    return result;
  }

private:
  std::string shown(const std::string& base) const {
    auto& schema = options_.table.schema;
    return "table " + (schema.empty() ? base : schema + "." + base);
  }

  void look_at(const std::string& base, std::span<const column> wanted,
               std::string_view key) {
    if (!why_.ok())
      return;
    // Table names hold neither quotes nor backslashes.
    auto where
      = " where c.table_schema = "
        + (options_.table.schema.empty() ? std::string{"database()"}
                                         : "'" + options_.table.schema + "'")
        + " and c.table_name = '" + base + "'";
    auto res = connection_.run(
      "select c.column_name, lower(c.column_type), c.column_key, t.engine,"
      " (select count(*) from information_schema.statistics s"
      "  where s.table_schema = c.table_schema"
      "  and s.table_name = c.table_name and s.index_name = 'PRIMARY')"
      " from information_schema.columns c join information_schema.tables t"
      " on t.table_schema = c.table_schema and t.table_name = c.table_name"
        + where,
      end_);
    if (!res.ok()) {
      why_ = explained(res, options_, false);
      return;
    }
    std::map<std::string, std::string, std::less<>> found;
    std::string engine;
    auto has_key = false;
    while (res.rows().next()) {
      std::string type{res.rows().bytes(1)};
      // Older servers show how wide a number is printed.
      if (auto pos = type.find("int("); pos != std::string::npos)
        type.erase(pos + 3, type.find(')') - pos - 2);
      found.emplace(res.rows().bytes(0), std::move(type));
      engine = res.rows().bytes(3);
      has_key = has_key
                || (res.rows().bytes(0) == key && res.rows().bytes(2) == "PRI"
                    && res.rows().integer(4) == 1);
    }
    auto table = shown(base);
    if (found.empty()) {
      problems_.push_back(table + " does not exist");
      return;
    }
    if (engine != "InnoDB")
      problems_.push_back(table + " is kept by " + engine
                          + " instead of InnoDB");
    for (auto& [name, type] : wanted) {
      auto pos = found.find(name);
      auto label = table + ": column " + std::string{name};
      if (pos == found.end())
        problems_.push_back(label + " is missing");
      else if (pos->second != type)
        problems_.push_back(label + " is " + pos->second + " instead of "
                            + std::string{type});
      if (pos != found.end() && name == key && !has_key)
        problems_.push_back(label + " is not the key");
    }
  }

  // In one statement, that is, at one moment.
  void look_at_counter() {
    auto res = connection_.run(
      "select (select last_number from "
        + options_.table.quoted_sequence(quote_mark)
        + " where id = 1), (select coalesce(max(fencing_token), 0) from "
        + options_.table.quoted(quote_mark) + ")",
      end_);
    if (!res.ok()) {
      why_ = explained(res, options_, false);
      return;
    }
    auto& row = res.rows();
    row.next();
    auto table = shown(options_.table.sequence_base());
    if (row.is_null(0))
      problems_.push_back(table + " has no row");
    else if (row.integer(0) < row.integer(1))
      problems_.push_back(
        table + ": last_number is " + std::to_string(row.integer(0))
        + ", but there is a fencing_token " + std::to_string(row.integer(1)));
  }

  // The servers have no question for this that counts in all sources of
  // rights, but they look before they find that there is nothing to do.
  void look_at_rights() {
    auto table = options_.table.quoted(quote_mark);
    auto counter = options_.table.quoted_sequence(quote_mark);

    struct probe {
      std::string base;
      std::string_view right;
      std::string sql;
    };

    const std::array<probe, 4> probes{{
      {options_.table.base, "insert",
       "insert into " + table
         + " (work_id, holder_id, fencing_token, expires_at, acquired_at,"
           " updated_at) select '', '', 0, 0, 0, 0 from dual where false"},
      {options_.table.base, "update",
       "update " + table + " set fencing_token = 0 where false"},
      {options_.table.base, "delete", "delete from " + table + " where false"},
      {options_.table.sequence_base(), "update",
       "update " + counter + " set last_number = 0 where false"},
    }};
    for (auto& [base, right, sql] : probes) {
      auto res = connection_.run(sql, end_);
      if (res.state == mysql_reply::status::lost) {
        why_ = explained(res, options_, false);
        return;
      }
      if (res.number == 1142 || res.number == 1143)
        problems_.push_back(shown(base) + ": this user may not "
                            + std::string{right});
    }
  }

  mysql_connection& connection_;
  const mysql_options& options_;
  limit_clock::time_point end_;
  std::vector<std::string> problems_;
  failure why_;
};

} // namespace

backend::store_ptr make_mysql_store(const mysql_options& options) {
  return std::make_unique<mysql_store>(options);
}

std::vector<std::string> mysql_schema_statements(const table_name& table) {
  return schema_statements(mysql_schema, table, quote_mark);
}

failure check_mysql_schema(const mysql_options& options) {
  mysql_connection connection{options.connection};
  auto end = limit_clock::now() + options.connection.timeout;
  return schema_check{connection, options, end}.run();
}

failure apply_mysql_schema(const mysql_options& options) {
  auto patient = options;
  patient.connection.timeout
    = std::max<duration>(patient.connection.timeout, std::chrono::seconds{30});
  auto end = limit_clock::now() + patient.connection.timeout;
  mysql_connection connection{patient.connection};
  // Where nothing is missing, nothing is locked and no rights are needed.
  if (auto found = schema_check{connection, patient, end}.run();
      found.ok() || found.also != ec::schema_missing)
    return found;
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
    patient.connection.timeout * 7 / 10);
  auto locked
    = connection.run("select get_lock('" + std::string{apply_lock} + "', "
                       + std::to_string(seconds.count()) + ")",
                     end);
  if (!locked.ok())
    return explained(locked, patient, false);
  if (!locked.rows().next() || locked.rows().integer(0) != 1)
    return {ec::unavailable, ec::none,
            "MySQL: another process has been changing the schema for too long"};
  for (auto& step : mysql_schema_statements(patient.table)) {
    auto res = connection.run(step, end);
    if (!res.ok()) {
      auto result
        = explained(res, patient, res.state == mysql_reply::status::lost);
      if (result.also == ec::schema_missing)
        result.also = ec::none;
      return result;
    }
  }
  connection.run("select release_lock('" + std::string{apply_lock} + "')", end);
  return schema_check{connection, patient, end}.run();
}

} // namespace leasehold::internal
