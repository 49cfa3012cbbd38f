// SPDX-License-Identifier: Apache-2.0
#include "leasehold/backend/store.hpp"

#include "leasehold/internal/enum_names.hpp"

#include <string_view>
#include <unordered_map>
#include <utility>

namespace leasehold::backend {

namespace {

constexpr leasehold::internal::enum_names<6> kinds{
  "op_kind", {"acquire", "read", "checkpoint", "renew", "release", "forget"}};

operation with_token(op_kind kind, const token& tok) {
  operation op;
  op.kind = kind;
  op.work_id = tok.work_id();
  op.holder_id = tok.holder_id();
  op.number = tok.number();
  return op;
}

outcome refused(ec code, std::string detail) {
  outcome result;
  result.code = code;
  result.detail = std::move(detail);
  return result;
}

} // namespace

std::string to_string(op_kind kind) {
  return kinds.to_string(kind);
}

bool from_string(std::string_view name, op_kind& kind) {
  return kinds.from_string(name, kind);
}

bool from_integer(std::uint8_t raw, op_kind& kind) {
  return kinds.from_integer(raw, kind);
}

operation operation::acquire(std::string work_id, std::string holder_id,
                             duration ttl, std::int64_t request) {
  operation op;
  op.kind = op_kind::acquire;
  op.work_id = std::move(work_id);
  op.holder_id = std::move(holder_id);
  op.ttl = ttl;
  op.request = request;
  return op;
}

operation operation::read(const token& tok) {
  return with_token(op_kind::read, tok);
}

operation operation::checkpoint(const token& tok, duration ttl,
                                std::optional<std::string> state,
                                std::int64_t sequence) {
  auto op = with_token(op_kind::checkpoint, tok);
  op.ttl = ttl;
  op.state = std::move(state);
  op.sequence = sequence;
  return op;
}

operation operation::renew(const token& tok, duration ttl) {
  auto op = with_token(op_kind::renew, tok);
  op.ttl = ttl;
  return op;
}

operation operation::release(const token& tok, exit_mode exit, bool repeat) {
  auto op = with_token(op_kind::release, tok);
  op.exit = exit;
  op.repeat = repeat;
  return op;
}

operation operation::forget(const token& tok) {
  return with_token(op_kind::forget, tok);
}

outcome check(const operation& op, std::size_t max_state_bytes) {
  if (op.kind == op_kind::release && !is_declarable(op.exit))
    return refused(ec::invalid_exit_mode,
                   "a release cannot declare " + to_string(op.exit)
                     + "; use finished, abandoned or retired");
  if (auto problem = identifier_problem(op.work_id); !problem.empty())
    return refused(ec::invalid_argument, "work ID " + printable(op.work_id)
                                           + " " + std::string{problem});
  if (auto problem = identifier_problem(op.holder_id); !problem.empty())
    return refused(ec::invalid_argument, "holder ID " + printable(op.holder_id)
                                           + " " + std::string{problem});
  if (op.ttl > max_duration || op.ttl < -max_duration)
    return refused(ec::invalid_argument, "a ttl of more than 100 years");
  if (op.state && op.state->size() > max_state_bytes)
    return refused(ec::state_too_large,
                   "state of " + std::to_string(op.state->size())
                     + " bytes is over the limit of "
                     + std::to_string(max_state_bytes)
                     + "; store less, or store a reference to it");
  return {};
}

store::~store() = default;

clock_difference compare_clocks(store& st, const store_clock& ours) {
  // The first one may have to connect.
  constexpr int attempts = 3;
  clock_difference best;
  list_query query;
  query.work_id = "-";
  query.limit = 1;
  for (int i = 0; i < attempts; ++i) {
    auto before = ours();
    auto found = st.list(query);
    auto took = ours() - before;
    if (found.code != ec::none) {
      best = {};
      best.code = found.code;
      best.detail = std::move(found.detail);
      return best;
    }
    duration tolerance{(took + 1) / 2};
    if (i == 0 || tolerance < best.tolerance) {
      best.ahead = duration{found.now_us - before - took / 2};
      best.tolerance = tolerance;
    }
  }
  return best;
}

std::vector<std::vector<std::size_t>>
split_by_work_id(std::span<const operation> ops) {
  std::vector<std::vector<std::size_t>> parts;
  std::unordered_map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    auto part = seen[ops[i].work_id]++;
    if (part == parts.size())
      parts.emplace_back();
    parts[part].push_back(i);
  }
  return parts;
}

} // namespace leasehold::backend
