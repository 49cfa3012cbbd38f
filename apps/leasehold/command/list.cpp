// SPDX-License-Identifier: Apache-2.0
#include "leasehold/command/command.hpp"
#include "leasehold/command/common.hpp"
#include "leasehold/command/rows.hpp"
#include "leasehold/exit_code.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

namespace leasehold::app {

namespace {

// Rows per call: bounds what one answer of the store takes, in time and space.
constexpr std::uint32_t page_rows = 5000;

using cells = std::vector<std::string>;

std::string left_cell(const backend::row& x, std::int64_t now_us) {
  if (x.exit != exit_mode::none)
    return "-";
  return approximate(duration{x.expires_us - now_us});
}

cells to_cells(const backend::row& x, std::int64_t now_us, bool wide) {
  auto state = state_of(x, now_us);
  auto has_holder = x.exit == exit_mode::none;
  cells result{
    on_one_line(x.work_id),
    std::string{state},
    has_holder ? on_one_line(x.holder_id) : "-",
    std::to_string(x.number),
    left_cell(x, now_us),
    x.state_bytes ? short_size(*x.state_bytes) : "-",
    approximate(duration{std::max<std::int64_t>(now_us - x.updated_us, 0)})
      + " ago",
    to_string(x.exit == exit_mode::none ? x.previous_exit : x.exit),
  };
  if (wide) {
    result.push_back(rfc3339(x.acquired_us));
    result.push_back(
      x.previous_holder_id.empty() ? "-" : on_one_line(x.previous_holder_id));
  }
  return result;
}

// Characters, not bytes; wide enough for what people put into IDs.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
    std::count_if(text.begin(), text.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }));
}

void print_table(const std::vector<cells>& lines) {
  std::vector<std::size_t> widths(lines.front().size());
  for (auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], width_of(line[i]));
  std::string text;
  for (auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += line[i];
      if (i + 1 < line.size())
        text.append(widths[i] - width_of(line[i]) + 2, ' ');
    }
    text += '\n';
  }
  print(text);
}

// Somebody may have written bytes by hand that are not UTF-8.
std::string to_text(const nlohmann::ordered_json& what, int indent) {
  return what.dump(indent, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace)
         + '\n';
}

// A NUL ends what may hold everything else.
void print_name(const backend::row& x, bool nul) {
  print(nul ? x.work_id + '\0' : as_name(x.work_id) + '\n');
}

/// Whether `--print0` goes with the output that was asked for.
bool fits(bool nul, const globals& flags) {
  if (!nul || flags.output == "table" || flags.output == "name")
    return true;
  complain("--print0 prints names; it does not go with --output "
           + flags.output);
  return false;
}

void print_rows(const std::vector<backend::row>& rows, std::int64_t now_us,
                const globals& flags, bool nul) {
  if (nul || flags.output == "name") {
    for (auto& x : rows)
      print_name(x, nul);
  } else if (flags.output == "json" || flags.output == "ndjson") {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (auto& x : rows) {
      if (flags.output == "ndjson")
        print(to_text(to_json(x, now_us), -1));
      else
        all.push_back(to_json(x, now_us));
    }
    if (flags.output == "json")
      print(to_text({{"leases", all}}, 2));
  } else {
    auto wide = flags.output == "wide";
    std::vector<cells> lines;
    if (!flags.no_headers) {
      lines.push_back({"WORK", "STATE", "HOLDER", "TOKEN", "LEFT", "STATE SIZE",
                       "UPDATED", "LAST EXIT"});
      if (wide) {
        lines.back().push_back("ACQUIRED");
        lines.back().push_back("PREVIOUS HOLDER");
      }
    }
    for (auto& x : rows)
      lines.push_back(to_cells(x, now_us, wide));
    if (!lines.empty())
      print_table(lines);
    std::map<std::string_view, int> counts;
    for (auto& x : rows)
      ++counts[state_of(x, now_us)];
    std::string summary;
    for (auto& [state, n] : counts)
      summary
        += fmt::format("{}{} {}", summary.empty() ? ": " : ", ", n, state);
    if (!flags.quiet)
      tell(fmt::format("{} lease{}{}", rows.size(), rows.size() == 1 ? "" : "s",
                       summary));
  }
}

int list(const globals& flags, const std::string& prefix, bool nul) {
  if (!fits(nul, flags))
    return exit_code::usage;
  auto choice = choose_store(flags);
  if (!choice.source)
    return choice.exit_code;
  auto session = choice.source->open();
  std::vector<backend::row> rows;
  backend::list_query query;
  query.prefix = prefix;
  query.limit = page_rows;
  std::int64_t now_us = 0;
  for (;;) {
    auto got = session->list(query);
    if (got.code != ec::none)
      return report(*choice.source, got.code, got.also, got.detail);
    now_us = got.now_us;
    auto full = got.rows.size() == page_rows;
    std::move(got.rows.begin(), got.rows.end(), std::back_inserter(rows));
    if (!full)
      break;
    query.after = rows.back().work_id;
  }
  print_rows(rows, now_us, flags, nul);
  return exit_code::ok;
}

void print_details(const backend::row& x, std::int64_t now_us, bool all) {
  auto line = [](std::string_view name, std::string_view value) {
    print(fmt::format("{:<17}{}\n", name, value));
  };
  auto ago = [&](std::int64_t when) {
    return fmt::format(
      "{} ({} ago)", rfc3339(when),
      approximate(duration{std::max<std::int64_t>(now_us - when, 0)}));
  };
  line("work", on_one_line(x.work_id));
  line("state", state_of(x, now_us));
  line(x.exit == exit_mode::none ? "holder" : "last holder",
       on_one_line(x.holder_id));
  line("token", std::to_string(x.number));
  line("left", left_cell(x, now_us));
  line("acquired", ago(x.acquired_us));
  line("updated", ago(x.updated_us));
  line("exit", x.exit == exit_mode::none ? "-" : to_string(x.exit));
  line("previous exit", to_string(x.previous_exit));
  line("previous holder",
       x.previous_holder_id.empty() ? "-" : on_one_line(x.previous_holder_id));
  line("checkpoint", x.state_bytes ? fmt::format("{} bytes", *x.state_bytes)
                                   : std::string{"none"});
  if (x.state) {
    constexpr std::size_t shown = 200;
    auto text = std::string_view{*x.state};
    auto cut = !all && text.size() > shown;
    print(fmt::format("\n{}{}\n",
                      on_one_line(cut ? text.substr(0, shown) : text),
                      cut ? " ... (--state shows all)" : ""));
  }
}

int show(const globals& flags, const std::string& work_id, bool all,
         bool hide) {
  if (auto problem = identifier_problem(work_id); !problem.empty()) {
    complain(fmt::format("work ID {} {}", printable(work_id), problem));
    return exit_code::usage;
  }
  auto choice = choose_store(flags);
  if (!choice.source)
    return choice.exit_code;
  backend::list_query query;
  query.work_id = work_id;
  query.with_state = !hide;
  auto got = choice.source->open()->list(query);
  if (got.code != ec::none)
    return report(*choice.source, got.code, got.also, got.detail);
  if (got.rows.empty()) {
    complain(fmt::format("{} has no lease in {}; nobody ever acquired it, or "
                         "its record was deleted",
                         printable(work_id), choice.source->display()));
    return exit_code::no;
  }
  auto& x = got.rows.front();
  if (flags.output == "json" || flags.output == "ndjson")
    print(to_text(to_json(x, got.now_us), flags.output == "json" ? 2 : -1));
  else if (flags.output == "name")
    print_name(x, false);
  else
    print_details(x, got.now_us, all);
  return exit_code::ok;
}

} // namespace

void add_list(CLI::App& app, globals& flags, chosen& run) {
  auto* cmd = app.add_subcommand("list", "Show the leases of a store");
  cmd->group("Look");
  cmd->footer("Examples:\n  leasehold list --store sqlite:///var/lib/l.db\n"
              "  leasehold list shard- -o json -c leasehold.yaml | jq\n"
              "  leasehold list -0 -c leasehold.yaml | xargs -0 -n 1 echo\n\n"
              "held: somebody works on it. lapsed: the holder crashed or was "
              "cut off.\nfree: released. retired: done for good.");
  auto prefix = std::make_shared<std::string>();
  cmd->add_option("prefix", *prefix, "Only work IDs that start so");
  auto nul = std::make_shared<bool>(false);
  cmd->add_flag("-0,--print0", *nul,
                "Print work IDs as they are, each with a NUL behind it; with "
                "-o name those that a line cannot show are JSON strings");
  cmd->callback([&flags, &run, prefix, nul] {
    run = [&flags, prefix, nul] { return list(flags, *prefix, *nul); };
  });
}

void add_show(CLI::App& app, globals& flags, chosen& run) {
  auto* cmd = app.add_subcommand("show", "Show one lease in full");
  cmd->group("Look");
  cmd->footer("Example:\n  leasehold show shard-7 -c leasehold.yaml\n\n"
              "Prints the first 200 characters of the checkpoint, unless told "
              "otherwise.\nExits 1 if there is no such lease.");
  auto work_id = std::make_shared<std::string>();
  auto all = std::make_shared<bool>(false);
  auto hide = std::make_shared<bool>(false);
  cmd->add_option("work", *work_id, "The work ID")->required();
  auto* state = cmd->add_flag("--state", *all, "Print all of the checkpoint");
  cmd->add_flag("--hide-state", *hide, "Print nothing of the checkpoint")
    ->excludes(state);
  cmd->callback([&flags, &run, work_id, all, hide] {
    run = [&flags, work_id, all, hide] {
      return show(flags, *work_id, *all, *hide);
    };
  });
}

} // namespace leasehold::app
