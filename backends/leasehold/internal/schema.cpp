// SPDX-License-Identifier: Apache-2.0
#include "leasehold/internal/schema.hpp"

#include "leasehold/identifier.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace leasehold::internal {

namespace {

constexpr std::size_t max_name_bytes = 63;

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > max_name_bytes
      || (text[0] >= '0' && text[0] <= '9'))
    return false;
  for (auto c : text)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
          || (c >= '0' && c <= '9') || c == '_'))
      return false;
  return true;
}

// What databases keep for themselves; empty if nothing speaks against it.
std::string_view reserved_by(std::string_view schema, std::string_view base,
                             dialect kind) {
  auto starts_with = [](std::string_view text, std::string_view prefix) {
    return text.size() >= prefix.size()
           && std::equal(
             prefix.begin(), prefix.end(), text.begin(), [](char a, char b) {
               return a == b || (b >= 'A' && b <= 'Z' && a == b - 'A' + 'a');
             });
  };
  if (kind == dialect::sqlite)
    return starts_with(base, "sqlite_") ? "SQLite" : std::string_view{};
  if (kind == dialect::mysql)
    return schema == "mysql" || schema == "sys"
               || schema == "information_schema"
               || schema == "performance_schema"
             ? "the database"
             : std::string_view{};
  // Names are quoted, so only the exact spelling is theirs.
  auto taken = schema.starts_with("pg_") || schema == "information_schema"
               || (schema.empty() && base.starts_with("pg_"));
  return taken ? "PostgreSQL" : std::string_view{};
}

// Names hold no quotes, see is_name.
std::string quote(std::string_view schema, std::string_view base, char mark) {
  std::string result;
  if (!schema.empty())
    result.append(1, mark).append(schema).append(1, mark).append(".");
  return result.append(1, mark).append(base).append(1, mark);
}

void replace_all(std::string& text, std::string_view from,
                 std::string_view to) {
  for (auto pos = text.find(from); pos != std::string::npos;
       pos = text.find(from, pos + to.size()))
    text.replace(pos, from.size(), to);
}

} // namespace

std::string foreign_table(const table_name& table) {
  return "table " + table.plain()
         + " exists, but it is not leasehold's; rename it, or choose another "
           "with `table:`, or with ?table= in the URL";
}

backend::failure beyond_repair(backend::failure left, const table_name& table) {
  if (left.also != ec::schema_missing)
    return left;
  left.also = ec::not_a_store;
  left.detail += "\napplying a schema leaves alone what is there: change table "
                 + table.plain()
                 + ", or choose another with `table:`, or with ?table= in the "
                   "URL";
  return left;
}

bool is_key_column(std::string_view name) {
  return name == "work_id" || name == "holder_id" || name == "fencing_token"
         || name == "expires_at";
}

std::string table_name::plain() const {
  return schema.empty() ? base : schema + "." + base;
}

std::string table_name::quoted(char mark) const {
  return quote(schema, base, mark);
}

std::string table_name::quoted_sequence(char mark) const {
  return quote(schema, sequence_base(), mark);
}

std::string table_name::sequence_base() const {
  constexpr std::string_view suffix = "_seq";
  return base.substr(0, max_name_bytes - suffix.size()) + std::string{suffix};
}

std::string parse_table_name(std::string_view text, dialect kind,
                             table_name& out) {
  auto base = text;
  auto dot = text.find('.');
  std::string_view schema;
  if (dot != std::string_view::npos) {
    if (kind == dialect::sqlite)
      return "table " + printable(text)
             + " has a schema prefix, which SQLite does not know";
    schema = text.substr(0, dot);
    base = text.substr(dot + 1);
  }
  if (!is_name(base) || (dot != std::string_view::npos && !is_name(schema)))
    return "table " + printable(text)
           + " is not a table name: use letters, digits and underscores, not "
             "starting with a digit, at most 63";
  if (auto owner = reserved_by(schema, base, kind); !owner.empty())
    return "table " + printable(text) + " is a name that " + std::string{owner}
           + " keeps for itself; choose another";
  table_name result;
  result.schema = schema;
  result.base = base;
  if (result.quoted() == result.quoted_sequence())
    return "table " + printable(text)
           + " would have the same name as its own counter; choose a shorter "
             "one";
  out = std::move(result);
  return {};
}

std::vector<std::string> schema_statements(std::string_view text,
                                           const table_name& table, char mark) {
  std::vector<std::string> result;
  std::string current;
  auto finish = [&] {
    // The marker keeps a table name that contains the default one from being
    // replaced twice.
    replace_all(current, "leasehold_leases_seq", "\x01");
    replace_all(current, "leasehold_leases", table.quoted(mark));
    replace_all(current, "\x01", table.quoted_sequence(mark));
    result.push_back(std::move(current));
    current.clear();
  };
  while (!text.empty()) {
    auto end = text.find('\n');
    auto line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{}
                                         : text.substr(end + 1);
    if (line.empty() || line.starts_with("--"))
      continue;
    if (!current.empty())
      current += '\n';
    current += line;
    if (current.ends_with(';')) {
      current.pop_back();
      finish();
    }
  }
  return result;
}

} // namespace leasehold::internal
