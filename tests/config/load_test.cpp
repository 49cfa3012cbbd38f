// SPDX-License-Identifier: Apache-2.0
#include "leasehold/config/load.hpp"

#include <boost/test/unit_test.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

using namespace leasehold;
using namespace leasehold::config;
using namespace std::chrono_literals;

namespace {

struct fixture {
  std::map<std::string, std::string> variables{{"PATH", "/usr/bin:/bin"}};
  std::string folder;

  fixture() {
    std::string pattern = "/tmp/leasehold-config-XXXXXX";
    folder = mkdtemp(pattern.data());
  }

  ~fixture() {
    std::filesystem::remove_all(folder);
  }

  load_result load(const std::string& text) {
    return load_text(text, folder, [this](const std::string& name) {
      auto pos = variables.find(name);
      return pos == variables.end() ? std::nullopt : std::optional{pos->second};
    });
  }

  // A good file with something in place of its pool's options.
  load_result load_pool(const std::string& more,
                        const std::string& work = "{list: [a]}") {
    return load("version: 1\n"
                "store: {url: \"sqlite:///x.db\"}\n"
                "pools:\n"
                "  - name: p\n"
                "    work: "
                + work
                + "\n"
                  "    run: {command: [/bin/true]}\n"
                + more);
  }

  void check_problems(const load_result& got,
                      const std::vector<std::string>& want) {
    std::vector<std::string> texts;
    for (auto& x : got.problems)
      texts.push_back(to_string(x, "f"));
    BOOST_TEST(texts == want, boost::test_tools::per_element());
  }

  void write(const std::string& name, const std::string& text) {
    std::ofstream{folder + "/" + name} << text;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(load_suite, fixture)

BOOST_AUTO_TEST_CASE(reads_a_small_file_and_fills_in_the_rest) {
  auto got = load_pool("    ttl: 10s\n");
  check_problems(got, {});
  auto& pool = got.value.pools.at(0);
  BOOST_TEST((pool.ttl == 10s));
  BOOST_TEST((pool.renew == 5s));
  BOOST_TEST((pool.margin == 500ms));
  BOOST_TEST((pool.stop.grace == 10s));
  BOOST_TEST(pool.run.argv.at(0) == "/bin/true");
  BOOST_TEST(got.value.node_holder.empty());
}

BOOST_AUTO_TEST_CASE(pools_override_the_defaults) {
  auto got = load("version: 1\n"
                  "store: {url: \"sqlite:///x.db\"}\n"
                  "defaults: {ttl: 20s, stop: {signal: INT}}\n"
                  "pools:\n"
                  "  - {name: a, work: {list: [x]}, ttl: 40s,"
                  " run: {command: [true]}}\n"
                  "  - {name: b, work: {list: [y]}, stop: {grace: 1s},"
                  " run: {command: [true]}}\n");
  check_problems(got, {});
  BOOST_TEST((got.value.pools.at(0).ttl == 40s));
  BOOST_TEST((got.value.pools.at(1).ttl == 20s));
  BOOST_TEST(got.value.pools.at(1).stop.signal == SIGINT);
  BOOST_TEST((got.value.pools.at(1).stop.grace == 1s));
}

BOOST_AUTO_TEST_CASE(reports_all_problems_at_once_in_order) {
  auto got = load("version: 2\n"
                  "store:\n"
                  "  url: sqlite:///x.db\n"
                  "  tabel: x\n"
                  "  timeout: 30\n"
                  "pools:\n"
                  "  - name: p\n"
                  "    tll: 5s\n"
                  "    max-held: 010\n"
                  "    elections: []\n"
                  "    work: {list: [a, ~, a]}\n"
                  "    run: {command: /bin/true}\n"
                  "colour: red\n");
  check_problems(
    got,
    {"f:1:10: error: version \"2\": must be 1",
     "f:4:3: error: unknown key \"tabel\" in store; did you mean \"table\"?",
     "f:5:12: error: store.timeout \"30\": needs a unit, as in 30s",
     "f:8:5: error: unknown key \"tll\" in pools[]; did you mean \"ttl\"?",
     "f:9:15: error: pools[].max-held \"010\": expected a whole number in "
     "plain decimal digits without leading zeros",
     "f:10:5: error: unknown key \"elections\" in pools[]; it may have: "
     "backoff, checkpoint, cleanup, idle, margin, max-held, name, renew, "
     "rerun, retry, run, stop, ttl, work",
     "f:11:22: error: an element of pools[].work.list must be a single value, "
     "not nothing",
     "f:12:20: error: pools[].run.command must be a list such as [one, two], "
     "not a single value",
     "f:13:1: error: unknown key \"colour\" in the file; it may have: "
     "defaults, log, node, pools, store, version"});
  BOOST_TEST(summary(got.problems) == "9 errors");
  BOOST_TEST(!got.ok());
}

BOOST_AUTO_TEST_CASE(keys_of_other_versions_are_refused_as_such) {
  auto got = load_pool("    spread: true\n"
                       "elections: []\n");
  check_problems(got, {"f:7:5: error: key \"spread\" is not available in this "
                       "version; remove it",
                       "f:8:1: error: key \"elections\" is not available in "
                       "this version; remove it"});
}

BOOST_AUTO_TEST_CASE(a_key_that_stands_twice_is_an_error) {
  auto got = load_pool("    ttl: 10s\n    ttl: 20s\n");
  check_problems(got, {"f:8:5: error: key \"ttl\" stands twice in pools[]"});
}

BOOST_AUTO_TEST_CASE(durations_are_strict) {
  for (auto text : {"30", "-5s", "1e3s", "5S", "\"\"", "[5s]", "1m1h"}) {
    BOOST_TEST_CONTEXT(text)
    BOOST_TEST(!load_pool("    idle: " + std::string{text} + "\n").ok());
  }
  check_problems(load_pool("    idle: 99999999999999999999d\n"),
                 {"f:7:11: error: pools[].idle \"99999999999999999999d\": "
                  "expected a duration such as 250ms, 30s, 2m or 1h30m, from "
                  "1ms to 36500d"});
  BOOST_TEST(load_pool("    idle: 1m30s\n").ok());
}

BOOST_AUTO_TEST_CASE(counts_are_plain_decimal_numbers) {
  for (auto text : {"010", "08", "0o10", "0x10", "1_000", "+5", "1e3", "5.0",
                    "'5'", "-1", "two", "~", "99999999999999999999999"}) {
    BOOST_TEST_CONTEXT(text)
    BOOST_TEST(!load_pool("    max-held: " + std::string{text} + "\n").ok());
  }
  BOOST_TEST(load_pool("    max-held: 1\n").ok());
  BOOST_TEST(load_pool("    max-held: 0\n").ok());
}

BOOST_AUTO_TEST_CASE(work_ids_stay_the_text_that_they_are) {
  auto got = load_pool("", "{list: [no, 1.10, 2026-10-01, 08, \"~\", yes]}");
  check_problems(got, {});
  std::vector<std::string> want{"no", "1.10", "2026-10-01", "08", "~", "yes"};
  BOOST_TEST(got.value.pools.at(0).work == want,
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(bad_work_is_named_with_its_place) {
  check_problems(load_pool("", "{list: [a, b, a]}"),
                 {"f:5:25: error: work \"a\" stands twice in pool \"p\""});
  check_problems(load_pool("", "{list: [\"a\\0b\"]}"),
                 {"f:5:19: error: work \"a\\x00b\" contains a NUL byte"});
  check_problems(load_pool("", "{list: []}"),
                 {"f:5:18: error: pool \"p\" has no units of work"});
  check_problems(load_pool("", "{list: [a], range: \"x{1..2}\"}"),
                 {"f:5:18: error: pool \"p\" has more than one kind of work; "
                  "keep one"});
}

BOOST_AUTO_TEST_CASE(ranges_keep_their_zeros) {
  auto got = load_pool("", "{range: \"s-{08..11}-x\"}");
  check_problems(got, {});
  std::vector<std::string> want{"s-08-x", "s-09-x", "s-10-x", "s-11-x"};
  BOOST_TEST(got.value.pools.at(0).work == want,
             boost::test_tools::per_element());
  for (auto bad : {"x", "x{1}", "x{5..1}", "x{a..b}", "x{1..2}{3..4}",
                   "x{0..9999999999}", "x{1..2"})
    BOOST_TEST(!load_pool("", "{range: \"" + std::string{bad} + "\"}").ok());
}

BOOST_AUTO_TEST_CASE(work_may_come_from_a_file_beside_the_configuration) {
  write("units", "# comment\n\na\r\nb c\n");
  auto got = load_pool("", "{file: units}");
  check_problems(got, {});
  std::vector<std::string> want{"a", "b c"};
  BOOST_TEST(got.value.pools.at(0).work == want,
             boost::test_tools::per_element());
  auto missing = load_pool("", "{file: nowhere}");
  BOOST_TEST(missing.problems.at(0).text
             == "work.file cannot be read: \"" + folder
                  + "/nowhere\": No such file or directory");
}

BOOST_AUTO_TEST_CASE(mistakes_in_a_file_of_work_are_named_with_their_line) {
  write("units", "# comment\na\n\na\nb\xff\n");
  auto place = "f:5:18: error: \"" + folder + "/units\" line ";
  check_problems(load_pool("", "{file: units}"),
                 {place + "4: work \"a\" stands twice in pool \"p\"",
                  place + "5: work \"b\\xff\" is not valid UTF-8"});
}

BOOST_AUTO_TEST_CASE(files_without_end_are_given_up) {
  BOOST_TEST(load_pool("", "{file: /dev/zero}").problems.at(0).text
             == "work.file cannot be read: \"/dev/zero\" is larger than 64 "
                "MiB");
  auto none = [](const std::string&) -> std::optional<std::string> {
    return std::nullopt;
  };
  check_problems(load_file("/dev/zero", none),
                 {"f: error: cannot be read: \"/dev/zero\" is larger than 4 "
                  "MiB"});
}

BOOST_AUTO_TEST_CASE(what_a_fifo_brings_can_be_used) {
  auto path = folder + "/fifo";
  BOOST_REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  std::thread writer{[&] {
    std::ofstream{path}
      << "version: 1\nstore: {url: \"sqlite:///x.db\"}\npools: "
         "[{name: p, work: {list: [a]}, run: {command: "
         "[/bin/true]}}]\n";
  }};
  auto got = load_file(
    path, [](const std::string&) { return std::optional<std::string>{}; });
  writer.join();
  check_problems(got, {});
}

BOOST_AUTO_TEST_CASE(the_same_work_in_two_pools_is_an_error) {
  auto got = load("version: 1\n"
                  "store: {url: \"sqlite:///x.db\"}\n"
                  "pools:\n"
                  "  - {name: p, work: {list: [a]}, run: {command: [true]}}\n"
                  "  - {name: p, work: {list: [a]}, run: {command: [true]}}\n");
  check_problems(got, {"f:5:12: error: two pools are named \"p\"",
                       "f:5:29: error: work \"a\" stands twice in pool "
                       "\"p\""});
}

BOOST_AUTO_TEST_CASE(variables_expand_in_values_only) {
  variables["DB"] = "/tmp/l.db";
  auto text = [](const std::string& url) {
    return "version: 1\nstore: {url: \"" + url
           + "\"}\npools: [{name: p, work: {list: [a]}, run: {command: "
             "[true]}}]\n";
  };
  BOOST_TEST(load(text("sqlite://${DB}")).value.store.url
             == "sqlite:///tmp/l.db");
  BOOST_TEST(load(text("sqlite:${NO:-x.db}")).value.store.url == "sqlite:x.db");
  BOOST_TEST(load(text("sqlite:a$$b$c")).value.store.url == "sqlite:a$b$c");
  check_problems(load(text("sqlite:${NO}")),
                 {"f:2:14: error: variable \"NO\" is not set; set it, or give "
                  "a default as in ${NO:-value}"});
  BOOST_TEST(!load(text("sqlite:${NO")).ok());
}

BOOST_AUTO_TEST_CASE(secrets_never_reach_a_problem) {
  variables["SECRET"] = "hunter2";
  write("url", "postgresql://u:hunter2@h/d\n");
  std::vector<std::string> texts{
    "version: 1\nstore: {url: \"\", table: \"${SECRET}\"}\n",
    "version: 1\nstore: {url: [hunter2]}\n",
    "version: 1\nstore: {url-file: url, url: \"postgresql://u:hunter2@h\"}\n",
    "version: 1\nstore: {url: x}\ndefaults: {ttl: \"${SECRET}\"}\n",
    "version: 1\nstore: {url-file: url}\ndefaults: {ttl: 1s}\npools: [{name: "
    "p, work: {list: [a]}, run: {command: [true]}}]\n"};
  for (auto& text : texts) {
    auto got = load(text);
    BOOST_TEST(!got.problems.empty());
    for (auto& x : got.problems)
      BOOST_TEST(x.text.find("hunter2") == std::string::npos);
  }
  BOOST_TEST(load(texts.back()).value.store.url
             == "postgresql://u:hunter2@h/d");
}

BOOST_AUTO_TEST_CASE(what_cannot_work_together_is_refused) {
  check_problems(load_pool("    ttl: 10s\n    renew: 10s\n"),
                 {"f:8:12: error: renew (10s) must be shorter than the ttl "
                  "(10s) of pool \"p\"; take renew: 5s"});
  check_problems(load_pool("    ttl: 10s\n    renew: 8s\n"),
                 {"f:7:10: error: store.timeout (3s, default) must be shorter "
                  "than ttl - renew (2s of pool \"p\"); take store.timeout: "
                  "1s",
                  "f:8:12: warning: renew (8s) is more than half of the ttl "
                  "(10s) of pool \"p\"; one failed renewal may lose a lease; "
                  "take renew: 5s"});
  check_problems(load_pool("    ttl: 100ms\n"),
                 {"f:7:10: error: store.timeout (3s, default) must be shorter "
                  "than ttl - renew (50ms of pool \"p\"); take ttl: 6s50ms"});
  check_problems(load("version: 1\n"
                      "store: {url: \"sqlite:///x.db\", timeout: 20s}\n"
                      "pools: [{name: p, work: {list: [a]}, run: {command: "
                      "[true]}}]\n"),
                 {"f:2:41: error: store.timeout (20s) must be shorter than ttl "
                  "- renew (15s of pool \"p\"); take store.timeout: 7s500ms"});
  check_problems(load_pool("    renew: 40s\n"),
                 {"f:7:12: error: renew (40s) must be shorter than the ttl "
                  "(30s, default) of pool \"p\"; take renew: 15s"});
  check_problems(load_pool("    margin: 8s\n"),
                 {"f:7:13: error: margin (8s) must be shorter than a quarter "
                  "of the ttl (30s, default) of pool \"p\"; take margin: "
                  "500ms"});
  check_problems(load_pool("    retry: {first: 5s, max: 1s}\n"),
                 {"f:7:20: error: retry.first (5s) must not be longer than "
                  "retry.max (1s) of pool \"p\"; take retry.max: 5s"});
  check_problems(load_pool("    retry: {first: 6s}\n"),
                 {"f:7:20: error: retry.first (6s) must not be longer than "
                  "retry.max (5s, default) of pool \"p\"; take retry.max: "
                  "6s"});
  check_problems(load_pool("    max-held: 4\n"),
                 {"f:7:15: warning: max-held 4 but only 1 units of work in "
                  "pool \"p\""});
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_not_missing_as_well) {
  auto with = [&](const std::string& pool, const std::string& store) {
    return load("version: 1\nstore: " + store + "\npools:\n  - " + pool + "\n");
  };
  std::string store = "{url: \"sqlite:///x.db\"}";
  std::string name = "name: p, ";
  std::string work = "work: {list: [a]}, ";
  std::string run = "run: {command: [true]}";
  for (auto pool : {"{" + name + work + "run: {command: \"echo hi\"}}",
                    "{" + name + work + "run: {comand: [true]}}",
                    "{" + name + work + "run: [true]}",
                    "{" + name + "work: {list: a}, " + run + "}",
                    "{" + name + "work: [a], " + run + "}",
                    "{" + name + "work: {lst: [a]}, " + run + "}",
                    "{" + name + "wrok: {list: [a]}, " + run + "}",
                    "{name: [p], " + work + run + "}",
                    "{" + name + work + run + ", ttl: 100, renew: 60s}",
                    "{" + name + work + run + ", renew: 60}"}) {
    BOOST_TEST_CONTEXT(pool)
    BOOST_TEST(with(pool, store).problems.size() == 1u);
  }
  for (auto wrong : {"{url: [x]}", "{ulr: x}", "x", "{url: \"${NO}\"}"}) {
    BOOST_TEST_CONTEXT(wrong)
    BOOST_TEST(with("{" + name + work + run + "}", wrong).problems.size()
               == 1u);
  }
  for (auto pools : {"pools: x", "pools: [x]", "pols: []"})
    BOOST_TEST(
      load("version: 1\nstore: " + store + "\n" + pools + "\n").problems.size()
      == 1u);
  BOOST_TEST(load("just a word").problems.size() == 1u);
  BOOST_TEST(load("version: one\nstore: " + store
                  + "\npools: [{name: p, work: {list: [a]}, run: {command: "
                    "[true]}}]\n")
               .problems.size()
             == 1u);
}

BOOST_AUTO_TEST_CASE(a_store_that_cannot_be_opened_is_an_error_in_its_place) {
  auto with = [&](const std::string& store) {
    return load("version: 1\nstore: " + store
                + "\npools: [{name: p, work: {list: [a]}, tll: 1s, run: "
                  "{command: [true]}}]\n");
  };
  std::string other = "f:3:38: error: unknown key \"tll\" in pools[]; did you "
                      "mean \"ttl\"?";
  auto check_store = [&](const std::string& store, const std::string& want) {
    BOOST_TEST_CONTEXT(store) {
      auto got = with(store);
      BOOST_TEST_REQUIRE(got.problems.size() == 2u);
      auto text = to_string(got.problems[0], "f");
      BOOST_TEST(text.starts_with(want), text);
      BOOST_TEST(to_string(got.problems[1], "f") == other);
    }
  };
  check_store("{url: \"postgresql://h:99999/d\"}",
              "f:2:14: error: store URL postgresql: holds a port that is not "
              "between 1 and 65535");
  check_store("{url: \"postgresql://h/d?sslmode=maybe\"}",
              "f:2:14: error: store URL postgresql: has sslmode=\"maybe\"; it "
              "may be one of disable allow");
  check_store("{url: foo}", "f:2:14: error: the store URL does not start with");
  check_store("{url: \"sqlite:x.db\", table: sqlite_x}",
              "f:2:36: error: store.table \"sqlite_x\" is a name that SQLite "
              "keeps for itself");
  check_store("{url: \"sqlite:x.db\", table: \"a b\"}",
              "f:2:36: error: store.table \"a b\" is not a table name");
  check_store("{url: \"sqlite:x.db?table=aa\", table: bb}",
              "f:2:45: error: store.table \"bb\" and ?table=aa in the URL name "
              "two tables; keep one");
  check_problems(with("{url: \"sqlite:x.db?table=aa\", table: aa}"), {other});
}

BOOST_AUTO_TEST_CASE(each_unit_of_work_has_an_output_file_of_its_own) {
  auto with = [&](const std::string& work, const std::string& file) {
    return load("version: 1\nstore: {url: \"sqlite:///x.db\"}\n"
                "pools:\n  - {name: p, work: {list: "
                + work + "}, run: {command: [true], output: {file: \"" + file
                + "\"}}}\n");
  };
  auto column = [](const std::string& work) {
    return "f:4:" + std::to_string(62 + static_cast<int>(work.size()))
           + ": error: ";
  };
  check_problems(with("[a/b, a_b, a%2Fb]", "{work}.log"), {});
  check_problems(with("[\".\", \"..\"]", "{work}"), {});
  check_problems(with("[a]", "one.log"), {});
  check_problems(with("[a, b]", "/dev/null"), {});
  BOOST_TEST(with("[a, b]", "one.log").problems.at(0).text
             == "run.output: work \"a\" and \"b\" would share the file \""
                  + folder + "/one.log\"; put {work} into its name");
  auto where = to_string(with("[a]", folder).problems.at(0), "f");
  BOOST_TEST(where.starts_with(column("[a]") + "run.output: \"" + folder
                               + "\" is a folder"),
             where);
  BOOST_TEST(with("[a]", "no/such/{work}.log")
               .problems.at(0)
               .text.find("no/such/\" does not exist")
             != std::string::npos);
  BOOST_TEST(!with("[" + std::string(300, 'x') + "]", "{work}").ok());
  auto two = load("version: 1\nstore: {url: \"sqlite:///x.db\"}\npools:\n"
                  "  - {name: p, work: {list: [a]}, run: {command: [true], "
                  "output: {file: \"{work}.log\"}}}\n"
                  "  - {name: q, work: {list: [b]}, run: {command: [true], "
                  "output: {file: \"a.log\"}}}\n");
  BOOST_TEST(two.problems.size() == 1u);
  command run;
  run.output_file = "/l/{work}.{work}";
  BOOST_TEST(output_file_of(run, "a/%b\n") == "/l/a%2F%25b%0A.a%2F%25b%0A");
  run.output_file = "/l/{work}";
  BOOST_TEST(output_file_of(run, "..") == "/l/%2E%2E");
  BOOST_TEST(output_file_of(run, "a..") == "/l/a..");
}

BOOST_AUTO_TEST_CASE(variables_of_leasehold_cannot_be_set) {
  auto got = load("version: 1\nstore: {url: \"sqlite:///x.db\"}\n"
                  "pools: [{name: p, work: {list: [a]}, run: {command: [true], "
                  "environment: {A: b, LEASEHOLD_TOKEN: 1}}}]\n");
  check_problems(got,
                 {"f:3:81: error: variable \"LEASEHOLD_TOKEN\": names that "
                  "start with LEASEHOLD_ are set by leasehold alone; "
                  "choose another"});
}

BOOST_AUTO_TEST_CASE(the_command_must_exist_and_be_executable) {
  auto with = [&](const std::string& command) {
    return load("version: 1\nstore: {url: \"sqlite:///x.db\"}\n"
                "pools: [{name: p, work: {list: [a]}, run: {command: "
                + command + "}}]\n");
  };
  write("script", "#!/bin/sh\n");
  BOOST_TEST(with("[true]").ok());
  BOOST_TEST(with("[\"/opt/{work}\"]").ok());
  BOOST_TEST(!with("[/no/such/program]").ok());
  BOOST_TEST(!with("[no-such-program-anywhere]").ok());
  BOOST_TEST(!with("[" + folder + "/script]").ok());
  // What is relative is so to the file.
  std::filesystem::permissions(folder + "/script",
                               std::filesystem::perms::owner_all);
  auto relative = with("[./script, a]");
  check_problems(relative, {});
  BOOST_TEST(relative.value.pools.at(0).run.argv.at(0) == folder + "/./script");
  BOOST_TEST(!with("[./nowhere]").ok());
  BOOST_TEST(with("[./script], directory: .").ok());
  BOOST_TEST(!with("[" + folder + "]").ok());
  BOOST_TEST(!with("[]").ok());
}

BOOST_AUTO_TEST_CASE(exit_codes_are_checked) {
  auto with = [&](const std::string& codes) {
    return load("version: 1\nstore: {url: \"sqlite:///x.db\"}\n"
                "pools: [{name: p, work: {list: [a]}, run: {command: [true], "
                "exit-codes: "
                + codes + "}}]\n");
  };
  BOOST_TEST(with("{retired: [10], permanent: [11]}").ok());
  for (auto bad : {"{retired: [0]}", "{retired: [256]}", "{retired: 10}",
                   "{retired: [10], permanent: [10]}", "{retired: [x]}"})
    BOOST_TEST(!with(bad).ok());
  BOOST_TEST(with("{retired: [10, 10], permanent: [10]}").problems.size()
             == 1u);
}

BOOST_AUTO_TEST_CASE(what_is_no_configuration_is_said_clearly) {
  check_problems(load(""), {"f:1:1: error: the file is empty; it needs at "
                            "least `version: 1`"});
  check_problems(load("~"), {"f:1:1: error: the file is empty; it needs at "
                             "least `version: 1`"});
  check_problems(load("\xff\xfe v"), {"f:1:1: error: the file is UTF-16; save "
                                      "it as UTF-8"});
  check_problems(load("version: 1\nstore:\n\turl: x\n"),
                 {"f:3:1: error: a tab; indent with blanks"});
  check_problems(load(std::string("a: b\0c", 6)),
                 {"f:1:5: error: a NUL byte; is this a text file?"});
  check_problems(load(std::string(100'000, '[')),
                 {"f:1:101: error: brackets are nested too deeply"});
  std::string deep = "version: 1\nx:\n";
  for (auto i = 1; i < 1000; ++i)
    deep += std::string(static_cast<std::size_t>(i), ' ') + "x:\n";
  std::string lists;
  for (auto i = 0; i < 1000; ++i)
    lists += "- ";
  for (auto& text : {deep, lists + "x"}) {
    auto got = load(text);
    BOOST_TEST_REQUIRE(got.problems.size() == 1u);
    BOOST_TEST(got.problems.at(0).text == "values are nested too deeply");
  }
  check_problems(load("version: 1\nx: \xff\n"),
                 {"f:2:1: error: bytes that are not UTF-8; is this a text "
                  "file?"});
  for (auto text : {"just a word", "- a\n- b\n", "a: [1, 2", "a: b: c",
                    "version: 1\n--- \nversion: 1\n", "<<: {a: b}\n", "&a [*a]",
                    "{{a: b}: c}"}) {
    BOOST_TEST_CONTEXT(text) {
      auto got = load(text);
      BOOST_TEST(!got.ok());
      BOOST_TEST(got.problems.at(0).line > 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(byte_order_marks_and_line_ends_do_not_matter) {
  std::string plain = "version: 1\n"
                      "store: {url: \"sqlite:///x.db\"}\n"
                      "pools: [{name: p, work: {list: [a]}, run: {command: "
                      "[true]}}]";
  std::string crlf;
  for (auto c : plain)
    crlf += c == '\n' ? std::string{"\r\n"} : std::string(1, c);
  check_problems(load(plain), {});
  check_problems(load("\xef\xbb\xbf" + plain), {});
  check_problems(load(crlf), {});
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_read_say_why) {
  auto none = [](const std::string&) -> std::optional<std::string> {
    return std::nullopt;
  };
  check_problems(load_file(folder + "/nowhere.yaml", none),
                 {"f: error: cannot be read: \"" + folder
                  + "/nowhere.yaml\": No such file or directory"});
  check_problems(load_file(folder, none),
                 {"f: error: cannot be read: \"" + folder + "\" is a folder"});
}

BOOST_AUTO_TEST_SUITE_END()
