// SPDX-License-Identifier: Apache-2.0
#include "leasehold/backend/memory.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace leasehold::backend {

namespace {

struct record {
  std::string holder_id;
  std::int64_t number = 0;
  std::int64_t request = 0;
  std::int64_t sequence = 0;
  std::int64_t expires_us = 0;
  std::int64_t acquired_us = 0;
  std::int64_t updated_us = 0;
  std::optional<std::string> state;
  exit_mode exit = exit_mode::none;
  exit_mode previous_exit = exit_mode::none;
  std::string previous_holder_id;

  bool released() const noexcept {
    return exit != exit_mode::none;
  }
};

// std::less on std::string compares as unsigned bytes, which is the order
// that the contract wants.
using table = std::map<std::string, record>;

outcome answer(ec code, std::int64_t now, const record& rec) {
  outcome result;
  result.code = code;
  result.number = rec.number;
  result.now_us = now;
  result.expires_us = rec.expires_us;
  return result;
}

prior prior_of(const record& rec) {
  return {rec.state, rec.previous_exit, rec.previous_holder_id};
}

outcome acquire(table& rows, std::int64_t& last_number, const operation& op,
                std::int64_t now) {
  auto [pos, fresh] = rows.try_emplace(op.work_id);
  auto& rec = pos->second;
  if (!fresh) {
    if (op.request != 0 && rec.request == op.request
        && rec.holder_id == op.holder_id && !rec.released()) {
      auto result = answer(ec::none, now, rec);
      result.previous = prior_of(rec);
      return result;
    }
    if (!rec.released() && rec.expires_us >= now) {
      auto result = answer(ec::lease_held, now, rec);
      result.holder_id = rec.holder_id;
      return result;
    }
    rec.previous_exit = rec.released() ? rec.exit : exit_mode::expired;
    rec.previous_holder_id = rec.holder_id;
  }
  rec.holder_id = op.holder_id;
  rec.number = ++last_number;
  rec.request = op.request;
  rec.sequence = 0;
  rec.expires_us = now + op.ttl.count();
  rec.acquired_us = now;
  rec.updated_us = now;
  rec.exit = exit_mode::none;
  auto result = answer(ec::none, now, rec);
  result.previous = prior_of(rec);
  return result;
}

outcome checkpoint(record& rec, const operation& op, std::int64_t now) {
  if (rec.released())
    return answer(ec::lease_expired, now, rec);
  if (op.sequence == 0 || op.sequence > rec.sequence) {
    rec.state = op.state && !op.state->empty() ? op.state : std::nullopt;
    rec.sequence = std::max(rec.sequence, op.sequence);
  }
  rec.expires_us = std::max(rec.expires_us, now + op.ttl.count());
  rec.updated_us = now;
  return answer(ec::none, now, rec);
}

outcome renew(record& rec, const operation& op, std::int64_t now) {
  if (rec.released() || rec.expires_us <= now)
    return answer(ec::lease_expired, now, rec);
  rec.expires_us = std::max(rec.expires_us, now + op.ttl.count());
  rec.updated_us = now;
  return answer(ec::none, now, rec);
}

outcome release(record& rec, const operation& op, std::int64_t now) {
  if (op.repeat && rec.exit == op.exit)
    return answer(ec::none, now, rec);
  if (rec.released() || rec.expires_us <= now)
    return answer(ec::lease_expired, now, rec);
  rec.exit = op.exit;
  rec.expires_us = now - 1000;
  rec.updated_us = now;
  return answer(ec::none, now, rec);
}

outcome apply(table& rows, std::int64_t& last_number, const operation& op,
              std::int64_t now) {
  if (op.kind == op_kind::acquire)
    return acquire(rows, last_number, op, now);
  auto pos = rows.find(op.work_id);
  if (pos == rows.end() || pos->second.number != op.number
      || pos->second.holder_id != op.holder_id) {
    outcome fenced;
    fenced.code = ec::fenced;
    fenced.now_us = now;
    return fenced;
  }
  auto& rec = pos->second;
  switch (op.kind) {
    case op_kind::read: {
      auto result = answer(ec::none, now, rec);
      result.previous = prior_of(rec);
      return result;
    }
    case op_kind::checkpoint:
      return checkpoint(rec, op, now);
    case op_kind::renew:
      return renew(rec, op, now);
    case op_kind::release:
      return release(rec, op, now);
    default: {
      auto result = answer(ec::none, now, rec);
      rows.erase(pos);
      return result;
    }
  }
}

row to_row(const std::string& work_id, const record& rec, bool with_state) {
  row result;
  result.work_id = work_id;
  result.holder_id = rec.holder_id;
  result.number = rec.number;
  result.expires_us = rec.expires_us;
  result.acquired_us = rec.acquired_us;
  result.updated_us = rec.updated_us;
  result.exit = rec.exit;
  result.previous_exit = rec.previous_exit;
  result.previous_holder_id = rec.previous_holder_id;
  if (rec.state) {
    result.state_bytes = rec.state->size();
    if (with_state)
      result.state = rec.state;
  }
  return result;
}

bool is_swept(const record& rec, const sweep_query& query, std::int64_t now) {
  if (now - rec.updated_us <= query.retention.count())
    return false;
  if (rec.exit == exit_mode::retired)
    return true;
  return query.include_expired && !rec.released() && rec.expires_us < now;
}

} // namespace

struct memory_store::data {
  std::mutex mtx;
  store_clock clock;
  std::size_t max_state_bytes;
  table rows;
  std::int64_t last_number = 0;
};

memory_store::memory_store(store_clock clock, std::size_t max_state_bytes)
  : data_(std::make_shared<data>()) {
  data_->clock = std::move(clock);
  data_->max_state_bytes = max_state_bytes;
}

memory_store::memory_store(std::shared_ptr<data> shared)
  : data_(std::move(shared)) {
  // nop
}

memory_store::~memory_store() = default;

std::unique_ptr<memory_store> memory_store::share() const {
  return std::unique_ptr<memory_store>{new memory_store{data_}};
}

std::vector<outcome> memory_store::execute(std::span<const operation> ops) {
  std::lock_guard guard{data_->mtx};
  std::vector<outcome> results;
  results.reserve(ops.size());
  for (auto& op : ops) {
    auto result = check(op, data_->max_state_bytes);
    if (result.ok())
      result = apply(data_->rows, data_->last_number, op, data_->clock());
    results.push_back(std::move(result));
  }
  return results;
}

listing memory_store::list(const list_query& query) {
  std::lock_guard guard{data_->mtx};
  listing result;
  result.now_us = data_->clock();
  auto& rows = data_->rows;
  auto start = query.work_id.empty() ? query.prefix : query.work_id;
  auto pos = query.after >= start && !query.after.empty()
               ? rows.upper_bound(query.after)
               : rows.lower_bound(start);
  for (; pos != rows.end(); ++pos) {
    auto& [work_id, rec] = *pos;
    auto selected = query.work_id.empty() ? work_id.starts_with(query.prefix)
                                          : work_id == query.work_id;
    if (!selected || (query.limit != 0 && result.rows.size() == query.limit))
      break;
    result.rows.push_back(to_row(work_id, rec, query.with_state));
  }
  return result;
}

sweep_result memory_store::sweep(const sweep_query& query) {
  std::lock_guard guard{data_->mtx};
  auto now = data_->clock();
  sweep_result result;
  result.deleted = std::erase_if(data_->rows, [&](const auto& entry) {
    return is_swept(entry.second, query, now);
  });
  return result;
}

} // namespace leasehold::backend
