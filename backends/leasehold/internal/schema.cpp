// SPDX-License-Identifier: Apache-2.0
#include "leasehold/internal/schema.hpp"

#include "leasehold/identifier.hpp"

#include <cstddef>

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

std::string parse_table_name(std::string_view text, bool allow_schema,
                             table_name& out) {
  auto base = text;
  auto dot = text.find('.');
  std::string_view schema;
  if (dot != std::string_view::npos) {
    if (!allow_schema)
      return "table " + printable(text)
             + " has a schema prefix, which SQLite does not know";
    schema = text.substr(0, dot);
    base = text.substr(dot + 1);
  }
  if (!is_name(base) || (dot != std::string_view::npos && !is_name(schema)))
    return "table " + printable(text)
           + " is not a table name: use letters, digits and underscores, not "
             "starting with a digit, at most 63";
  out.schema = schema;
  out.base = base;
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
