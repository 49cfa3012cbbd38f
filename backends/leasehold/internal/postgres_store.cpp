// SPDX-License-Identifier: Apache-2.0
#include "leasehold/internal/postgres_store.hpp"

#include "leasehold/internal/binary.hpp"
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

// Beyond this, a statement gains nothing and holds its locks longer.
constexpr std::size_t max_rows = 256;
constexpr std::size_t max_bytes = 1024 * 1024;

// A mere look locks nothing.
constexpr std::size_t max_looked_at = 16 * 1024;

// Larger states would spill out of the server's work memory in a batch.
constexpr std::size_t max_batched_state = 4096;

constexpr chunk_limits limits{max_rows, max_bytes, max_batched_state};

// Larger states are fetched one by one, so that a reply cannot be larger than
// memory.
constexpr std::int64_t max_inline_state = 64 * 1024;

constexpr int max_repeats = 5;

// ---------------------------------------------------------------------------
// SQL. Rules that all of it follows: the server's clock decides, as of the
// start of the statement; rows are locked in byte order of the work ID, so
// that batches cannot deadlock; what is decided about a row is computed where
// it is locked, so that it is true of the row as it is then; tables are joined
// by their key alone, which keeps the plan good whatever the statistics say.
// The first row of each result carries the time.
//
// A claim draws its number before its row is locked if there is no row yet, or
// none any more. So that it cannot store that number after a larger one was
// issued and deleted, claims exclude deletions: they share an advisory lock on
// one of some buckets of work IDs, a forget waits until it has that for itself,
// and a sweep leaves a row out if it cannot have it. All locks on buckets are
// taken in order, before those on rows.

constexpr std::string_view lock_space = "731057924";
constexpr std::string_view bucket_function = "63 & hashtext";

constexpr std::string_view acquire_sql = R"(
with i as materialized (
  select u.work_id, u.holder_id, u.ttl, u.request
  from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
    as u(work_id, holder_id, ttl, request)
), p as materialized (
  select i.work_id, i.holder_id, i.ttl, i.request, l.holder_id as owner,
    l.fencing_token, l.expires_at, l.prev_exit_mode, l.prev_holder_id,
    l.checkpoint,
    l.holder_id is null or l.exit_mode is not null
      or l.expires_at < statement_timestamp() as free,
    i.request <> 0 and l.request_id = i.request and l.exit_mode is null
      and l.holder_id = i.holder_id as repeated
  from i left join @table l on l.work_id = i.work_id
), s as materialized (
  select count(pg_advisory_xact_lock_shared(@space, x.bucket)) as taken
  from (select distinct @bucket(p.work_id) as bucket from p
    where p.free and p.repeated is not true order by 1) x
), g as (
  insert into @table as l (work_id, holder_id, expires_at, acquired_at,
    updated_at, request_id)
  select p.work_id, p.holder_id,
    statement_timestamp() + p.ttl * interval '1 microsecond',
    statement_timestamp(), statement_timestamp(), nullif(p.request, 0)
  from p where p.free and p.repeated is not true
    and (select s.taken from s) > 0
  order by p.work_id collate "C"
  on conflict (work_id) do update set
    holder_id = excluded.holder_id,
    fencing_token = default,
    expires_at = excluded.expires_at,
    exit_mode = null,
    prev_exit_mode = coalesce(l.exit_mode, 'expired'),
    prev_holder_id = l.holder_id,
    acquired_at = excluded.acquired_at,
    updated_at = excluded.updated_at,
    request_id = excluded.request_id,
    checkpoint_seq = null
  where l.exit_mode is not null or l.expires_at < statement_timestamp()
  returning l.work_id, l.fencing_token, l.expires_at, l.prev_exit_mode,
    l.prev_holder_id, l.checkpoint
)
select 0, null::text, null::bigint, statement_timestamp(), null::text,
  null::text, null::bigint, null::bytea
union all
select 1, g.work_id, g.fencing_token, g.expires_at, g.prev_exit_mode,
  g.prev_holder_id, octet_length(g.checkpoint)::bigint,
  case when octet_length(g.checkpoint) <= $5::bigint then g.checkpoint end
from g
union all
select 1, p.work_id, p.fencing_token, p.expires_at, p.prev_exit_mode,
  p.prev_holder_id, octet_length(p.checkpoint)::bigint,
  case when octet_length(p.checkpoint) <= $5::bigint then p.checkpoint end
from p where p.repeated
union all
select 2, p.work_id, p.fencing_token, p.expires_at, null, p.owner, null, null
from p where not p.free and p.repeated is not true
)";

// Of many that wait, most wait in vain: this tells them so in one statement,
// with the columns of the one above. The others go through that.
constexpr std::string_view held_sql = R"(
select 0, null::text, null::bigint, statement_timestamp(), null::text,
  null::text, null::bigint, null::bytea
union all
select 2, l.work_id, l.fencing_token, l.expires_at, null, l.holder_id, null,
  null
from unnest($1::text[], $2::text[], $3::bigint[])
  as i(work_id, holder_id, request)
join @table l on l.work_id = i.work_id
where l.exit_mode is null and l.expires_at >= statement_timestamp()
  and (i.request = 0 or l.request_id is distinct from i.request
    or l.holder_id <> i.holder_id)
)";

constexpr std::string_view read_sql = R"(
select 0::bigint, statement_timestamp(), null::text, null::text, null::bigint,
  null::bytea
union all
select i.ord, l.expires_at, l.prev_exit_mode, l.prev_holder_id,
  octet_length(l.checkpoint)::bigint,
  case when octet_length(l.checkpoint) <= $4::bigint then l.checkpoint end
from unnest($1::text[], $2::text[], $3::bigint[])
  with ordinality as i(work_id, holder_id, number, ord)
join @table l on l.work_id = i.work_id
where l.holder_id = i.holder_id and l.fencing_token = i.number
)";

// Of the statements below, outcome 0 is ok, 1 expired, 2 ok without a write;
// no row means fenced.

constexpr std::string_view renew_sql = R"(
with k as materialized (
  select i.ord, l.work_id,
    case when l.exit_mode is not null or l.expires_at <= statement_timestamp()
      then 1 else 0 end as outcome,
    case when l.exit_mode is not null or l.expires_at <= statement_timestamp()
      then l.expires_at
      else greatest(l.expires_at,
        statement_timestamp() + i.ttl * interval '1 microsecond')
      end as expires_at
  from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
    with ordinality as i(work_id, holder_id, number, ttl, ord)
  join @table l on l.work_id = i.work_id
  where l.holder_id = i.holder_id and l.fencing_token = i.number
  order by l.work_id collate "C" for no key update of l
), x as (
  update @table l
  set expires_at = k.expires_at, updated_at = statement_timestamp()
  from k where k.outcome = 0 and l.work_id = k.work_id
)
select 0::bigint, 0, statement_timestamp()
union all select k.ord, k.outcome, k.expires_at from k
)";

constexpr std::string_view checkpoint_sql = R"(
with k as materialized (
  select i.ord, l.work_id, i.state,
    i.sequence = 0 or i.sequence > coalesce(l.checkpoint_seq, 0) as fresh,
    greatest(coalesce(l.checkpoint_seq, 0), i.sequence) as sequence,
    case when l.exit_mode is not null then 1 else 0 end as outcome,
    case when l.exit_mode is not null then l.expires_at
      else greatest(l.expires_at,
        statement_timestamp() + i.ttl * interval '1 microsecond')
      end as expires_at
  from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[],
      $5::bigint[], $6::bytea[])
    with ordinality as i(work_id, holder_id, number, ttl, sequence, state, ord)
  join @table l on l.work_id = i.work_id
  where l.holder_id = i.holder_id and l.fencing_token = i.number
  order by l.work_id collate "C" for no key update of l
), x as (
  update @table l
  set expires_at = k.expires_at, updated_at = statement_timestamp(),
    checkpoint = case when k.fresh then k.state else l.checkpoint end,
    checkpoint_seq = k.sequence
  from k where k.outcome = 0 and l.work_id = k.work_id
)
select 0::bigint, 0, statement_timestamp()
union all select k.ord, k.outcome, k.expires_at from k
)";

// For one large state, which goes into the row without passing through the
// server's work memory.
constexpr std::string_view large_checkpoint_sql = R"(
with k as materialized (
  select l.work_id,
    $5::bigint = 0 or $5::bigint > coalesce(l.checkpoint_seq, 0) as fresh,
    greatest(coalesce(l.checkpoint_seq, 0), $5::bigint) as sequence,
    case when l.exit_mode is not null then 1 else 0 end as outcome,
    case when l.exit_mode is not null then l.expires_at
      else greatest(l.expires_at,
        statement_timestamp() + $4::bigint * interval '1 microsecond')
      end as expires_at
  from @table l
  where l.work_id = $1::text and l.holder_id = $2::text
    and l.fencing_token = $3::bigint
  for no key update of l
), x as (
  update @table l
  set expires_at = k.expires_at, updated_at = statement_timestamp(),
    checkpoint = case when k.fresh then $6::bytea else l.checkpoint end,
    checkpoint_seq = k.sequence
  from k where k.outcome = 0 and l.work_id = k.work_id
)
select 0::bigint, 0, statement_timestamp()
union all select 1, k.outcome, k.expires_at from k
)";

constexpr std::string_view release_sql = R"(
with k as materialized (
  select i.ord, l.work_id, i.mode,
    case when i.repeat and l.exit_mode = i.mode then 2
      when l.exit_mode is not null
        or l.expires_at <= statement_timestamp() then 1
      else 0 end as outcome,
    case when l.exit_mode is not null
        or l.expires_at <= statement_timestamp() then l.expires_at
      else statement_timestamp() - interval '1 millisecond' end as expires_at
  from unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bool[])
    with ordinality as i(work_id, holder_id, number, mode, repeat, ord)
  join @table l on l.work_id = i.work_id
  where l.holder_id = i.holder_id and l.fencing_token = i.number
  order by l.work_id collate "C" for no key update of l
), x as (
  update @table l
  set exit_mode = k.mode, expires_at = k.expires_at,
    updated_at = statement_timestamp()
  from k where k.outcome = 0 and l.work_id = k.work_id
)
select 0::bigint, 0, statement_timestamp()
union all select k.ord, k.outcome, k.expires_at from k
)";

constexpr std::string_view forget_sql = R"(
with i as materialized (
  select u.work_id, u.holder_id, u.number, u.ord
  from unnest($1::text[], $2::text[], $3::bigint[])
    with ordinality as u(work_id, holder_id, number, ord)
), s as materialized (
  select count(pg_advisory_xact_lock(@space, x.bucket)) as taken
  from (select distinct @bucket(i.work_id) as bucket from i order by 1) x
), k as materialized (
  select i.ord, l.work_id, l.expires_at
  from i join @table l on l.work_id = i.work_id
  where l.holder_id = i.holder_id and l.fencing_token = i.number
    and (select s.taken from s) > 0
  order by l.work_id collate "C" for update of l
), x as (
  delete from @table l using k where l.work_id = k.work_id
)
select 0::bigint, 0, statement_timestamp()
union all select k.ord, 0, k.expires_at from k
)";

constexpr std::string_view list_sql = R"(
select statement_timestamp(), l.work_id, l.holder_id, l.fencing_token,
  l.expires_at, l.acquired_at, l.updated_at, l.exit_mode, l.prev_exit_mode,
  l.prev_holder_id, l.state_bytes, l.state
from (select 1) as one left join lateral (
  select c.work_id, c.holder_id, c.fencing_token, c.expires_at, c.acquired_at,
    c.updated_at, c.exit_mode, c.prev_exit_mode, c.prev_holder_id,
    octet_length(c.checkpoint)::bigint as state_bytes,
    case when octet_length(c.checkpoint) <= $3::bigint then c.checkpoint end
      as state
  from @table c
  where c.work_id collate "C" @compare $1::text
  order by c.work_id collate "C" limit $2::bigint
) l on true
)";

constexpr std::string_view sweep_sql = R"(
with c as materialized (
  select l.work_id from @table l
  where l.work_id collate "C" > $1::text
    and case when l.updated_at
        < statement_timestamp() - $2::bigint * interval '1 microsecond'
      and (l.exit_mode = 'retired' or ($3::bigint <> 0 and l.exit_mode is null
        and l.expires_at < statement_timestamp()))
      then pg_try_advisory_xact_lock(@space, @bucket(l.work_id)) else false end
  order by l.work_id collate "C" limit $4::bigint
  for update skip locked
), d as (
  delete from @table l using c where l.work_id = c.work_id
  returning l.work_id
)
select count(*), max(d.work_id collate "C") from d
)";

// ---------------------------------------------------------------------------

std::string filled(std::string_view sql, const table_name& table,
                   std::string_view compare = {}) {
  std::string result{sql};
  auto replace = [&](std::string_view from, std::string_view to) {
    for (auto pos = result.find(from); pos != std::string::npos;
         pos = result.find(from, pos + to.size()))
      result.replace(pos, from.size(), to);
  };
  replace("@compare", compare);
  replace("@space", lock_space);
  replace("@bucket", bucket_function);
  replace("@table", table.quoted());
  return result;
}

/// What an SQLSTATE means to us. The one place that knows.
struct verdict {
  ec code = ec::store_failed;
  ec also = ec::none;

  /// The server asks to run the same statement again.
  bool again = false;

  /// Another connection may do better.
  bool reconnect = false;

  /// One row of the batch is at fault.
  bool is_data = false;
};

verdict classify(std::string_view sqlstate) {
  auto is = [&](std::string_view x) { return sqlstate == x; };
  auto in_class = [&](std::string_view x) { return sqlstate.starts_with(x); };
  verdict result;
  if (is("40P01") || is("40001")) {
    result.code = ec::unavailable;
    result.again = true;
  } else if (is("26000") || is("0A000")) {
    // A statement that the server forgot, or whose table changed its shape.
    result.code = ec::unavailable;
    result.again = true;
    result.reconnect = true;
  } else if (is("25006")) {
    result.code = ec::unavailable;
    result.reconnect = true;
  } else if (is("42P01") || is("42703") || is("3F000") || is("42P10")
             || is("23502")) {
    // No table, column, schema, unique key; no default for the number.
    result.also = ec::schema_missing;
  } else if (is("22021") || is("22P05") || is("22008") || is("22003")) {
    // Text that the database's encoding cannot hold; a time out of range.
    result.code = ec::invalid_argument;
    result.is_data = true;
  } else if (in_class("22") || in_class("23")) {
    result.is_data = true;
  } else if (is("XX001") || is("XX002")) {
    result.also = ec::not_a_store;
  } else if (in_class("08") || in_class("40") || in_class("53")
             || in_class("55") || in_class("57")) {
    result.code = ec::unavailable;
  }
  return result;
}

failure explained(const reply& res, const postgres_options& options,
                  bool is_write) {
  failure result;
  if (res.state == reply::status::lost) {
    result.code = res.sent && is_write ? ec::unknown_outcome : ec::unavailable;
    result.detail = "PostgreSQL: " + res.message;
    return result;
  }
  auto known = classify(res.sqlstate);
  result.code = known.code;
  result.also = known.also;
  result.detail
    = "PostgreSQL: " + res.message + " (SQLSTATE " + res.sqlstate + ")";
  // Without a key column it was never a table of ours.
  if (res.sqlstate == "42703"
      && res.message.find("work_id") != std::string::npos) {
    result.also = ec::not_a_store;
    result.detail += "; " + foreign_table(options.table);
  } else if (known.also == ec::schema_missing)
    result.detail += "; run `leasehold schema apply -s " + options.display
                     + "` for table " + options.table.plain();
  else if (res.sqlstate == "42501")
    result.detail += "; grant the user select, insert, update and delete on "
                     + options.table.plain() + " and usage on its sequence";
  return result;
}

/// Keeps the bytes of binary parameters alive.
class parameters {
public:
  void add(binary_array& array) {
    list_.push_back({array.finish(), false});
  }

  void add(std::string_view bytes) {
    list_.push_back({bytes, false});
  }

  void add_null() {
    list_.push_back({{}, true});
  }

  std::span<const parameter> all() const {
    return list_;
  }

private:
  std::vector<parameter> list_;
};

class postgres_store : public backend::store {
public:
  explicit postgres_store(const postgres_options& options)
    : options_(options), connection_(options.connection) {
    auto make = [&](const char* name, std::string_view sql,
                    std::string_view compare = {}) {
      return prepared_statement{name, filled(sql, options.table, compare)};
    };
    acquire_ = make("lh_acquire", acquire_sql);
    held_ = make("lh_held", held_sql);
    read_ = make("lh_read", read_sql);
    checkpoint_ = make("lh_checkpoint", checkpoint_sql);
    large_checkpoint_ = make("lh_large_checkpoint", large_checkpoint_sql);
    renew_ = make("lh_renew", renew_sql);
    release_ = make("lh_release", release_sql);
    forget_ = make("lh_forget", forget_sql);
    list_from_ = make("lh_list_from", list_sql, ">=");
    list_after_ = make("lh_list_after", list_sql, ">");
    sweep_ = make("lh_sweep", sweep_sql);
  }

  std::vector<outcome> execute(std::span<const operation> ops) override {
    end_ = limit_clock::now() + options_.connection.timeout;
    gone_ = false;
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
  static bool is_write(op_kind kind) {
    return kind != op_kind::read;
  }

  bool is_large(std::size_t i) const {
    return internal::is_large(ops_[i], limits);
  }

  void run_kind(op_kind kind, indexes& all) {
    sort_by_work_id(ops_, all);
    if (kind == op_kind::acquire && all.size() > max_rows)
      all = without_held(all);
    for_each_chunk(ops_, all, limits,
                   [&](const indexes& chunk) { run_chunk(kind, chunk); });
  }

  void run_chunk(op_kind kind, const indexes& chunk) {
    if (kind == op_kind::acquire)
      acquire(chunk);
    else if (kind == op_kind::read)
      read(chunk);
    else
      change(kind, chunk);
  }

  /// Runs a statement, again where the server asks for it.
  reply run(const prepared_statement& stmt, const parameters& params) {
    reply result;
    if (gone_ || limit_clock::now() >= end_) {
      result.message = "no time left for this operation";
      return result;
    }
    for (int i = 0; i < max_repeats; ++i) {
      result = connection_.run(stmt, params.all(), end_);
      if (result.state != reply::status::refused)
        break;
      auto known = classify(result.sqlstate);
      if (known.reconnect)
        connection_.drop();
      if (!known.again || limit_clock::now() >= end_)
        break;
    }
    // The rest of the call does not wait for a server that does not answer.
    gone_ = result.state == reply::status::lost;
    return result;
  }

  void fail(const indexes& chunk, const reply& res, op_kind kind) {
    auto why = explained(res, options_, is_write(kind));
    for (auto i : chunk) {
      auto& result = results_[i];
      result = {};
      result.code = why.code;
      result.also = why.also;
      result.detail = why.detail;
    }
  }

  /// After an error: either runs the rows one by one, or gives all of them
  /// the reason.
  void failed(const indexes& chunk, const reply& res, op_kind kind) {
    if (res.state == reply::status::refused && chunk.size() > 1
        && classify(res.sqlstate).is_data) {
      for (auto i : chunk)
        run_chunk(kind, {i});
      return;
    }
    fail(chunk, res, kind);
  }

  struct token_arrays {
    binary_array work_ids{pg_type::text};
    binary_array holder_ids{pg_type::text};
    binary_array numbers{pg_type::bigint};

    void add(const operation& op) {
      work_ids.add(std::string_view{op.work_id});
      holder_ids.add(std::string_view{op.holder_id});
      numbers.add(op.number);
    }

    void add_to(parameters& params) {
      params.add(work_ids);
      params.add(holder_ids);
      params.add(numbers);
    }
  };

  /// Answers those of many acquisitions that somebody else holds; returns the
  /// rest.
  indexes without_held(const indexes& all) {
    indexes rest;
    for (std::size_t first = 0; first < all.size(); first += max_looked_at) {
      auto last = std::min(first + max_looked_at, all.size());
      indexes part{all.begin() + static_cast<std::ptrdiff_t>(first),
                   all.begin() + static_cast<std::ptrdiff_t>(last)};
      binary_array work_ids{pg_type::text};
      binary_array holder_ids{pg_type::text};
      binary_array requests{pg_type::bigint};
      for (auto i : part) {
        work_ids.add(std::string_view{ops_[i].work_id});
        holder_ids.add(std::string_view{ops_[i].holder_id});
        requests.add(ops_[i].request);
      }
      parameters params;
      params.add(work_ids);
      params.add(holder_ids);
      params.add(requests);
      auto res = run(held_, params);
      if (res.state == reply::status::refused
          && classify(res.sqlstate).is_data) {
        // One of them is at fault: the claim finds out which.
        rest.insert(rest.end(), part.begin(), part.end());
        continue;
      }
      if (!res.ok()) {
        fail(part, res, op_kind::read);
        continue;
      }
      indexes none;
      auto open = take_acquired(part, result_view{res.result.get()}, none);
      rest.insert(rest.end(), open.begin(), open.end());
    }
    return rest;
  }

  void acquire(indexes chunk) {
    auto inline_limit = binary_bigint(max_inline_state);
    indexes large;
    for (int round = 0; round < max_repeats && !chunk.empty(); ++round) {
      binary_array work_ids{pg_type::text};
      binary_array holder_ids{pg_type::text};
      binary_array ttls{pg_type::bigint};
      binary_array requests{pg_type::bigint};
      for (auto i : chunk) {
        work_ids.add(std::string_view{ops_[i].work_id});
        holder_ids.add(std::string_view{ops_[i].holder_id});
        ttls.add(std::int64_t{ops_[i].ttl.count()});
        requests.add(ops_[i].request);
      }
      parameters params;
      params.add(work_ids);
      params.add(holder_ids);
      params.add(ttls);
      params.add(requests);
      params.add(inline_limit);
      auto res = run(acquire_, params);
      if (!res.ok()) {
        failed(chunk, res, op_kind::acquire);
        break;
      }
      chunk = take_acquired(chunk, result_view{res.result.get()}, large);
    }
    // Every round lost a race for these: somebody has them.
    for (auto i : chunk)
      if (results_[i].ok() && results_[i].number == 0)
        results_[i].code = ec::lease_held;
    for (auto i : large)
      fetch_large_prior(i);
  }

  /// Returns those that were claimed by somebody else in the instant between
  /// the statement's look at the table and its write.
  indexes take_acquired(const indexes& chunk, const result_view& view,
                        indexes& large) {
    auto now = view.timestamp(0, 3);
    for (auto i : chunk)
      results_[i].now_us = now;
    for (int r = 1; r < view.rows(); ++r) {
      auto work_id = view.bytes(r, 1);
      auto pos = std::lower_bound(
        chunk.begin(), chunk.end(), work_id,
        [this](auto i, auto id) { return ops_[i].work_id < id; });
      if (pos == chunk.end() || ops_[*pos].work_id != work_id)
        continue;
      auto& result = results_[*pos];
      result.number = view.integer(r, 2);
      result.expires_us = view.timestamp(r, 3);
      if (view.integer(r, 0) == 2) {
        result.code = ec::lease_held;
        result.holder_id = view.bytes(r, 5);
        continue;
      }
      result.previous.exit = exit_mode_from_store(view.bytes(r, 4));
      result.previous.holder_id = view.bytes(r, 5);
      if (!take_state(view, r, 6, result.previous.state))
        large.push_back(*pos);
    }
    indexes rest;
    for (auto i : chunk)
      if (results_[i].ok() && results_[i].number == 0)
        rest.push_back(i);
    return rest;
  }

  /// Reads a size and a state. Returns false if the state was too large to
  /// come along.
  static bool take_state(const result_view& view, int row, int column,
                         std::optional<std::string>& out) {
    out.reset();
    // Other programs may store an empty state, which means the same as none.
    if (view.integer(row, column) == 0)
      return true;
    if (view.is_null(row, column + 1))
      return false;
    out.emplace(view.bytes(row, column + 1));
    return true;
  }

  void fetch_large_prior(std::size_t i) {
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

  static void take_prior(const result_view& view, int row, outcome& out) {
    out.code = ec::none;
    out.expires_us = view.timestamp(row, 1);
    out.previous.exit = exit_mode_from_store(view.bytes(row, 2));
    out.previous.holder_id = view.bytes(row, 3);
  }

  /// Reads one row with its state, however large that is.
  outcome read_one(const operation& op) {
    token_arrays tokens;
    tokens.add(op);
    auto limit = binary_bigint(std::numeric_limits<std::int64_t>::max());
    parameters params;
    tokens.add_to(params);
    params.add(limit);
    auto res = run(read_, params);
    outcome result;
    if (!res.ok()) {
      auto why = explained(res, options_, false);
      result.code = why.code;
      result.also = why.also;
      result.detail = why.detail;
      return result;
    }
    result_view view{res.result.get()};
    result.code = ec::fenced;
    result.now_us = view.timestamp(0, 1);
    if (view.rows() > 1) {
      result.number = op.number;
      take_prior(view, 1, result);
      take_state(view, 1, 4, result.previous.state);
    }
    return result;
  }

  void read(const indexes& chunk) {
    token_arrays tokens;
    for (auto i : chunk)
      tokens.add(ops_[i]);
    auto limit = binary_bigint(max_inline_state);
    parameters params;
    tokens.add_to(params);
    params.add(limit);
    auto res = run(read_, params);
    if (!res.ok()) {
      failed(chunk, res, op_kind::read);
      return;
    }
    result_view view{res.result.get()};
    for (auto i : chunk) {
      results_[i].code = ec::fenced;
      results_[i].now_us = view.timestamp(0, 1);
    }
    indexes large;
    for (int r = 1; r < view.rows(); ++r) {
      auto i = chunk[static_cast<std::size_t>(view.integer(r, 0) - 1)];
      auto& result = results_[i];
      result.number = ops_[i].number;
      take_prior(view, r, result);
      if (!take_state(view, r, 4, result.previous.state))
        large.push_back(i);
    }
    for (auto i : large)
      results_[i] = read_one(ops_[i]);
  }

  /// renew, checkpoint, release and forget.
  void change(op_kind kind, const indexes& chunk) {
    token_arrays tokens;
    binary_array ttls{pg_type::bigint};
    binary_array sequences{pg_type::bigint};
    binary_array states{pg_type::bytes};
    binary_array modes{pg_type::text};
    binary_array repeats{pg_type::boolean};
    std::array<std::string, 3> numbers;
    parameters params;
    const prepared_statement* stmt = &forget_;
    auto& first = ops_[chunk.front()];
    if (is_large(chunk.front())) {
      numbers = {binary_bigint(first.number), binary_bigint(first.ttl.count()),
                 binary_bigint(first.sequence)};
      params.add(first.work_id);
      params.add(first.holder_id);
      for (auto& number : numbers)
        params.add(number);
      params.add(*first.state);
      stmt = &large_checkpoint_;
    } else {
      for (auto i : chunk) {
        auto& op = ops_[i];
        tokens.add(op);
        if (kind == op_kind::renew || kind == op_kind::checkpoint)
          ttls.add(std::int64_t{op.ttl.count()});
        if (kind == op_kind::checkpoint) {
          sequences.add(op.sequence);
          if (op.state && !op.state->empty())
            states.add(std::string_view{*op.state});
          else
            states.add_null();
        }
        if (kind == op_kind::release) {
          modes.add(std::string_view{to_string(op.exit)});
          repeats.add(op.repeat);
        }
      }
      tokens.add_to(params);
      if (kind == op_kind::renew || kind == op_kind::checkpoint)
        params.add(ttls);
      if (kind == op_kind::renew)
        stmt = &renew_;
      if (kind == op_kind::checkpoint) {
        params.add(sequences);
        params.add(states);
        stmt = &checkpoint_;
      }
      if (kind == op_kind::release) {
        params.add(modes);
        params.add(repeats);
        stmt = &release_;
      }
    }
    auto res = run(*stmt, params);
    if (!res.ok()) {
      failed(chunk, res, kind);
      return;
    }
    result_view view{res.result.get()};
    for (auto i : chunk) {
      results_[i].code = ec::fenced;
      results_[i].now_us = view.timestamp(0, 2);
    }
    for (int r = 1; r < view.rows(); ++r) {
      auto i = chunk[static_cast<std::size_t>(view.integer(r, 0) - 1)];
      auto& result = results_[i];
      result.code = view.integer(r, 1) == 1 ? ec::lease_expired : ec::none;
      result.number = ops_[i].number;
      result.expires_us = view.timestamp(r, 2);
    }
  }

  reply list_page(std::string_view from, bool inclusive, std::int64_t limit,
                  std::int64_t inline_limit);

  postgres_options options_;
  postgres_connection connection_;

  prepared_statement acquire_;
  prepared_statement held_;
  prepared_statement read_;
  prepared_statement checkpoint_;
  prepared_statement large_checkpoint_;
  prepared_statement renew_;
  prepared_statement release_;
  prepared_statement forget_;
  prepared_statement list_from_;
  prepared_statement list_after_;
  prepared_statement sweep_;

  // Of the call that is under way.
  limit_clock::time_point end_;
  bool gone_ = false;
  std::span<const operation> ops_;
  std::vector<outcome> results_;
};

backend::row to_row(const result_view& view, int r) {
  backend::row result;
  result.work_id = view.bytes(r, 1);
  result.holder_id = view.bytes(r, 2);
  result.number = view.integer(r, 3);
  result.expires_us = view.timestamp(r, 4);
  result.acquired_us = view.timestamp(r, 5);
  result.updated_us = view.timestamp(r, 6);
  if (!view.is_null(r, 7))
    result.exit = exit_mode_from_store(view.bytes(r, 7));
  result.previous_exit = exit_mode_from_store(view.bytes(r, 8));
  result.previous_holder_id = view.bytes(r, 9);
  if (auto size = view.integer(r, 10); size > 0)
    result.state_bytes = static_cast<std::uint64_t>(size);
  return result;
}

/// The longest start of `text` that the server takes as text.
std::string_view valid_start(std::string_view text) {
  auto result = text.substr(0, text.find('\0'));
  // Identifiers are at most 512 bytes long; a longer bound needs no more to
  // be right, as rows are compared again.
  result = result.substr(0, max_identifier_bytes);
  while (!result.empty() && !identifier_problem(result).empty())
    result.remove_suffix(1);
  return result;
}

reply postgres_store::list_page(std::string_view from, bool inclusive,
                                std::int64_t limit, std::int64_t inline_limit) {
  auto page = binary_bigint(limit);
  auto size = binary_bigint(inline_limit);
  parameters params;
  params.add(from);
  params.add(page);
  params.add(size);
  return run(inclusive ? list_from_ : list_after_, params);
}

listing postgres_store::list(const list_query& query) {
  end_ = limit_clock::now() + options_.connection.timeout;
  gone_ = false;
  listing result;
  auto start = query.work_id.empty() ? query.prefix : query.work_id;
  auto lowest = std::max(start, query.after);
  std::string cursor{valid_start(lowest)};
  auto inclusive = true;
  auto fail = [&](const reply& res) {
    auto why = explained(res, options_, false);
    result = {};
    result.code = why.code;
    result.also = why.also;
    result.detail = why.detail;
    return result;
  };
  for (;;) {
    auto wanted = max_rows;
    if (!query.work_id.empty())
      wanted = 1;
    else if (query.limit != 0)
      // One more, as the row at the cursor may not count.
      wanted
        = std::min<std::size_t>(wanted, query.limit - result.rows.size() + 1);
    auto res = list_page(cursor, inclusive, static_cast<std::int64_t>(wanted),
                         query.with_state ? max_inline_state : -1);
    if (!res.ok())
      return fail(res);
    result_view view{res.result.get()};
    result.now_us = view.timestamp(0, 0);
    if (view.is_null(0, 1))
      return result;
    for (int r = 0; r < view.rows(); ++r) {
      auto next = to_row(view, r);
      cursor = next.work_id;
      if (next.work_id < lowest
          || (!query.after.empty() && next.work_id <= query.after))
        continue;
      auto selected = query.work_id.empty()
                        ? next.work_id.starts_with(query.prefix)
                        : next.work_id == query.work_id;
      if (!selected || (query.limit != 0 && result.rows.size() == query.limit))
        return result;
      if (query.with_state && next.state_bytes) {
        if (!view.is_null(r, 11)) {
          next.state.emplace(view.bytes(r, 11));
        } else {
          auto again = list_page(next.work_id, true, 1,
                                 std::numeric_limits<std::int64_t>::max());
          if (!again.ok())
            return fail(again);
          result_view one{again.result.get()};
          // It may be gone, or have changed since.
          if (one.bytes(0, 1) != next.work_id)
            continue;
          next = to_row(one, 0);
          if (next.state_bytes)
            next.state.emplace(one.bytes(0, 11));
        }
      }
      result.rows.push_back(std::move(next));
    }
    if (static_cast<std::size_t>(view.rows()) < wanted)
      return result;
    inclusive = false;
  }
}

sweep_result postgres_store::sweep(const sweep_query& query) {
  constexpr std::int64_t page = 500;
  end_ = limit_clock::now() + options_.connection.timeout;
  gone_ = false;
  sweep_result result;
  auto retention = binary_bigint(query.retention.count());
  auto include_expired = binary_bigint(query.include_expired ? 1 : 0);
  auto limit = binary_bigint(page);
  std::string cursor;
  for (;;) {
    parameters params;
    params.add(cursor);
    params.add(retention);
    params.add(include_expired);
    params.add(limit);
    auto res = run(sweep_, params);
    if (!res.ok()) {
      auto why = explained(res, options_, true);
      result.code = why.code;
      result.also = why.also;
      result.detail = why.detail;
      return result;
    }
    result_view view{res.result.get()};
    auto deleted = view.integer(0, 0);
    result.deleted += static_cast<std::uint64_t>(deleted);
    if (deleted < page)
      return result;
    cursor = view.bytes(0, 1);
  }
}

// ---------------------------------------------------------------------------

// Any number, as long as all processes that apply a schema agree on it.
constexpr std::string_view apply_lock = "7310579246011";

std::string literal(std::string_view text) {
  // Table names hold neither quotes nor backslashes.
  return "'" + std::string{text} + "'";
}

struct column {
  std::string_view name;
  std::string_view type;
};

constexpr std::array<column, 12> columns{{
  {"work_id", "text"},
  {"holder_id", "text"},
  {"fencing_token", "bigint"},
  {"expires_at", "timestamp with time zone"},
  {"checkpoint", "bytea"},
  {"exit_mode", "text"},
  {"prev_exit_mode", "text"},
  {"prev_holder_id", "text"},
  {"acquired_at", "timestamp with time zone"},
  {"updated_at", "timestamp with time zone"},
  {"request_id", "bigint"},
  {"checkpoint_seq", "bigint"},
}};

/// The sequence that a table's numbers come from, as `s`, with its settings as
/// `q`. Nothing if the default of the column does not name it openly.
std::string from_sequence_of(const table_name& table) {
  return " from pg_attrdef e join pg_attribute a on a.attrelid = e.adrelid"
         "  and a.attnum = e.adnum and a.attname = 'fencing_token'"
         " join pg_depend d on d.classid = 'pg_attrdef'::regclass"
         "  and d.objid = e.oid and d.refclassid = 'pg_class'::regclass"
         " join pg_class s on s.oid = d.refobjid and s.relkind = 'S'"
         " join pg_sequence q on q.seqrelid = s.oid"
         " join pg_class t on t.oid = e.adrelid"
         " where e.adrelid = to_regclass("
         + literal(table.quoted()) + ")";
}

/// What the sequence gives out next.
constexpr std::string_view next_number
  = "coalesce(pg_sequence_last_value(s.oid) + q.seqincrement, q.seqstart)";

/// What would let numbers go back or leases vanish in a table that has the
/// right shape: a copy without its sequence, for one.
failure check_numbers(postgres_connection& connection,
                      const postgres_options& options,
                      limit_clock::time_point end,
                      std::vector<std::string>& problems) {
  auto sql = "select s.oid::regclass::text, q.seqincrement, q.seqcache,"
             " q.seqcycle, s.relpersistence, t.relpersistence,"
             " has_sequence_privilege(s.oid, 'usage'), x.highest,"
             " case when has_sequence_privilege(s.oid, 'usage') then "
             + std::string{next_number} + " > x.highest else true end"
             + from_sequence_of(options.table);
  sql.insert(sql.find(" where e.adrelid"),
             " cross join (select coalesce(max(l.fencing_token), 0) as highest"
             " from "
               + options.table.quoted() + " l) x");
  auto res = connection.run_text(sql, end);
  if (!res.ok())
    return explained(res, options, false);
  result_view view{res.result.get()};
  auto table = "table " + options.table.plain();
  for (int r = 0; r < view.rows(); ++r) {
    std::string name{view.bytes(r, 0)};
    auto label = "sequence " + name;
    if (view.bytes(r, 6) != "t")
      problems.push_back(label + ": this user may not use it");
    if (view.bytes(r, 1).starts_with('-') || view.bytes(r, 3) != "f")
      problems.push_back(label + " does not always grow; run `alter sequence "
                         + name + " increment by 1 no cycle`");
    // Each session would have numbers in stock, and give out old ones late.
    if (view.bytes(r, 2) != "1")
      problems.push_back(label + " keeps " + std::string{view.bytes(r, 2)}
                         + " numbers per session in stock; run `alter "
                           "sequence "
                         + name + " cache 1`");
    if (view.bytes(r, 4) != "p" || view.bytes(r, 5) != "p")
      problems.push_back(table
                         + " or its sequence is not kept after a crash; "
                           "run `alter table "
                         + options.table.plain() + " set logged`");
    if (view.bytes(r, 8) != "t")
      problems.push_back(label + " is behind the numbers of " + table + ", "
                         + std::string{view.bytes(r, 7)}
                         + " is taken; run `leasehold schema apply -s "
                         + options.display + "`");
  }
  return {};
}

failure check_on(postgres_connection& connection,
                 const postgres_options& options, limit_clock::time_point end) {
  auto name = literal(options.table.quoted());
  auto sql
    = "select a.attname, format_type(a.atttypid, null),"
      " coalesce(pg_get_expr(d.adbin, d.adrelid), '') like 'nextval(%',"
      " exists (select from pg_index x where x.indrelid = a.attrelid"
      "  and x.indisunique and x.indpred is null and x.indnkeyatts = 1"
      "  and x.indkey[0] = a.attnum),"
      " has_table_privilege(a.attrelid, 'select'),"
      " has_table_privilege(a.attrelid, 'insert'),"
      " has_table_privilege(a.attrelid, 'update'),"
      " has_table_privilege(a.attrelid, 'delete')"
      " from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid"
      "  and d.adnum = a.attnum"
      " where a.attrelid = to_regclass("
      + name + ") and a.attnum > 0 and not a.attisdropped";
  auto res = connection.run_text(sql, end);
  if (!res.ok())
    return explained(res, options, false);
  result_view view{res.result.get()};
  std::vector<std::string> problems;
  auto table = "table " + options.table.plain();
  failure result;
  if (view.rows() == 0) {
    problems.push_back(table + " does not exist");
  } else {
    std::map<std::string_view, int> found;
    for (int r = 0; r < view.rows(); ++r)
      found.emplace(view.bytes(r, 0), r);
    if (std::any_of(columns.begin(), columns.end(), [&](auto& x) {
          return is_key_column(x.name) && !found.contains(x.name);
        })) {
      result.code = ec::store_failed;
      result.also = ec::not_a_store;
      result.detail = foreign_table(options.table);
      return result;
    }
    for (auto& [column_name, type] : columns) {
      auto pos = found.find(column_name);
      auto label = table + ": column " + std::string{column_name};
      if (pos == found.end()) {
        problems.push_back(label + " is missing");
        continue;
      }
      auto r = pos->second;
      if (view.bytes(r, 1) != type)
        problems.push_back(label + " is " + std::string{view.bytes(r, 1)}
                           + " instead of " + std::string{type});
      if (column_name == "fencing_token" && view.bytes(r, 2) != "t")
        problems.push_back(label + " does not default to a sequence");
      if (column_name == "work_id" && view.bytes(r, 3) != "t")
        problems.push_back(label + " is not the key");
    }
  }
  // Rights that are missing are not a matter of the schema.
  auto shape_differs = !problems.empty();
  if (view.rows() > 0) {
    constexpr std::array<std::string_view, 4> privileges{"select", "insert",
                                                         "update", "delete"};
    for (int i = 0; i < 4; ++i)
      if (view.bytes(0, 4 + i) != "t")
        problems.push_back(
          table + ": this user may not "
          + std::string{privileges[static_cast<std::size_t>(i)]});
  }
  if (problems.empty()) {
    auto why = check_numbers(connection, options, end, problems);
    if (!why.ok())
      return why;
    shape_differs = !problems.empty();
  }
  if (problems.empty())
    return result;
  result.code = ec::store_failed;
  if (shape_differs)
    result.also = ec::schema_missing;
  for (auto& line : problems)
    result.detail += (result.detail.empty() ? "" : "\n") + line;
  return result;
}

} // namespace

backend::store_ptr make_postgres_store(const postgres_options& options) {
  return std::make_unique<postgres_store>(options);
}

failure check_postgres_schema(const postgres_options& options) {
  postgres_connection connection{options.connection};
  return check_on(connection, options,
                  limit_clock::now() + options.connection.timeout);
}

failure apply_postgres_schema(const postgres_options& options) {
  auto patient = options;
  patient.connection.timeout
    = std::max<duration>(patient.connection.timeout, std::chrono::seconds{30});
  auto end = limit_clock::now() + patient.connection.timeout;
  postgres_connection connection{patient.connection};
  // Where nothing is missing, nothing is locked and no rights are needed.
  if (auto found = check_on(connection, patient, end);
      found.ok() || found.also != ec::schema_missing)
    return found;
  std::vector<std::string> steps{"begin", "select pg_advisory_xact_lock("
                                            + std::string{apply_lock} + ")"};
  for (auto& stmt : schema_statements(postgres_schema, patient.table))
    steps.push_back(std::move(stmt));
  // Numbers go on behind those of the rows. Nobody draws one meanwhile.
  steps.push_back("lock table " + patient.table.quoted()
                  + " in share row exclusive mode");
  auto repair = "select setval(s.oid::regclass, x.highest)"
                + from_sequence_of(patient.table)
                + " and x.highest >= " + std::string{next_number};
  repair.insert(repair.find(" where e.adrelid"),
                " cross join (select max(l.fencing_token) as highest from "
                  + patient.table.quoted() + " l) x");
  steps.push_back(std::move(repair));
  steps.emplace_back("commit");
  for (auto& step : steps) {
    auto res = connection.run_text(step, end);
    if (!res.ok()) {
      auto result = explained(res, patient, true);
      if (result.also == ec::schema_missing)
        result.also = ec::none;
      return result;
    }
  }
  return beyond_repair(check_on(connection, patient, end), patient.table);
}

} // namespace leasehold::internal
