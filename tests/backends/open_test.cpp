// SPDX-License-Identifier: Apache-2.0
#include "leasehold/backend/open.hpp"

#include "support/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <csignal>

using namespace leasehold;
using namespace leasehold::backend;
using namespace std::chrono_literals;

namespace {

std::string problem(std::string_view url, store_options options = {}) {
  auto result = store_source::parse(url, std::move(options));
  auto why = std::get_if<failure>(&result);
  BOOST_TEST_REQUIRE(why != nullptr, "should be refused: " << url);
  BOOST_TEST((why->code == ec::config_invalid));
  BOOST_TEST(why->detail.find('\n') == std::string::npos);
  return why->detail;
}

store_source source(std::string_view url, store_options options = {}) {
  auto result = store_source::parse(url, std::move(options));
  if (auto why = std::get_if<failure>(&result))
    BOOST_FAIL(why->detail);
  return std::get<store_source>(std::move(result));
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace

BOOST_AUTO_TEST_SUITE(open_suite)

BOOST_AUTO_TEST_CASE(shows_a_url_without_its_secrets) {
  auto shown = [](std::string_view url) { return source(url).display(); };
  BOOST_TEST(shown("postgresql://ann:s3cret@db:5433/work")
             == "postgresql://ann:***@db:5433/work");
  BOOST_TEST(shown("postgres://ann@db/work") == "postgresql://ann@db/work");
  BOOST_TEST(shown("postgresql:///work?host=/run/pg&table=ops.leases")
             == "postgresql:///work?table=ops.leases&host=%2Frun%2Fpg");
  BOOST_TEST(shown("postgresql://h/d?password=s3cret&sslpassword=s3cret")
             == "postgresql://h/d?password=***&sslpassword=***");
  BOOST_TEST(shown("POSTGRESQL://a,b:5433,[::1]:5/d")
             == "postgresql://a,b:5433,[::1]:5/d");
  BOOST_TEST(shown("mysql://ann:s3cret@db:3307/work")
             == "mysql://ann:***@db:3307/work");
  BOOST_TEST(shown("mariadb://ann@[::1]:3307/work?table=ops.leases")
             == "mysql://ann@[::1]:3307/work?table=ops.leases");
  BOOST_TEST(shown("mysql://:s3cret@/work?socket=/run/my%20sql&ssl-ca=/ca.pem")
             == "mysql://:***@/work?socket=%2Frun%2Fmy%20sql&ssl-ca=%2Fca.pem");
  BOOST_TEST(shown("sqlite:///var/lib/my%20leases.db")
             == "sqlite:///var/lib/my%20leases.db");
  BOOST_TEST(shown("sqlite:leases.db?table=mine")
             == "sqlite:leases.db?table=mine");
  BOOST_TEST(shown("memory:") == "memory:");
}

BOOST_AUTO_TEST_CASE(names_the_known_schemes_when_it_knows_no_other) {
  BOOST_TEST(has(problem("oracle://db"), "unknown scheme \"oracle\""));
  BOOST_TEST(has(problem("oracle://db"), "sqlite:"));
  BOOST_TEST(has(problem("oracle://db"), "mysql://"));
  BOOST_TEST(has(problem("redis://db/x"), "not supported yet"));
  BOOST_TEST(has(problem(""), "is empty"));
  BOOST_TEST(has(problem("/var/lib/x.db"), "scheme"));
  BOOST_TEST(has(problem("leases"), "scheme"));
}

BOOST_AUTO_TEST_CASE(refuses_what_it_cannot_use_without_repeating_secrets) {
  for (auto url : {
         "postgresql://ann:pa/hunter@db/work",
         "postgresql://ann:pa?hunter@db/work",
         "postgresql://ann:pa#hunter@db/work",
         "postgresql://ann:pa@hunter@db/work",
         "postgresql://ann:pa%hunter@db/work",
         "postgresql://ann:pa%00hunter@db/work",
         "postgresql://ann:pa hunter@db:x/work",
         "postgresql://ann:pa\nhunter@db/work",
         "postgresql://ann:pa/hunter",
         "postgresql://db:0x1/work",
         "postgresql:work",
         "postgresql://db/a/b",
         "postgresql://db/work?nonsense=hunter",
         "postgresql://db/work?sslmode",
         "mysql://ann:pa/hunter@db/work",
         "mysql://ann:pa@hunter@db/work",
         "mysql://ann:hunter@db",
         "mysql://ann:hunter@db/",
         "mysql://ann:hunter@db/a/b",
         "mysql://ann:hunter@db:x/work",
         "mysql://ann:hunter@a,b/work",
         "mysql://ann:hunter@%2Frun%2Fsocket/work",
         "mysql://ann:hunter@db/work?socket=/run/socket",
         "mysql://ann@db/work?password=hunter",
         "mysql://ann:hunter@db/work?table=a%60b",
         "mysql:work",
         "sqlite:",
         "sqlite://leases.db",
         "sqlite://u:hunter@h/leases.db",
         "sqlite:/var/lib/",
         "sqlite:a%22b.db",
         "sqlite:leases.db?mode=ro",
         "sqlite:leases.db?table=a.b",
         "sqlite:leases.db?table=a%20b",
         "sqlite::memory:",
         "memory:x",
         "memory://",
       }) {
    auto text = problem(url);
    BOOST_TEST(!has(text, "hunter"), text);
  }
}

BOOST_AUTO_TEST_CASE(refuses_values_that_no_server_would_take) {
  for (auto url :
       {"postgresql://db:99999/x", "postgresql://db:0/x",
        "postgresql://a:1,b:65536/x", "postgresql:///x?port=99999",
        "postgresql:///x?port=1,x", "postgresql://db:99999999999999999999/x"})
    BOOST_TEST(has(problem(url), "port"));
  for (auto item : {"sslmode=maybe", "gssencmode=x", "channel_binding=x",
                    "target_session_attrs=x", "keepalives=2",
                    "connect_timeout=5s", "keepalives_idle="}) {
    auto text = problem("postgresql:///x?" + std::string{item});
    BOOST_TEST(has(text, std::string_view{item}.substr(
                           0, std::string_view{item}.find('='))),
               text);
  }
  BOOST_TEST(has(problem("postgresql:///x?sslmode=maybe"), "verify-full"));
  source("postgresql://a:1,b:65535/x?sslmode=verify-full&connect_timeout=5");
}

BOOST_AUTO_TEST_CASE(refuses_tables_that_databases_keep_for_themselves) {
  for (auto url :
       {"sqlite:x.db?table=sqlite_x", "sqlite:x.db?table=SQLite_stat1",
        "postgresql:///x?table=pg_leases",
        "postgresql:///x?table=pg_catalog.leases",
        "postgresql:///x?table=information_schema.leases"})
    BOOST_TEST(has(problem(url), "keeps for itself"));
  auto own = "sqlite:x.db?table=" + std::string(59, 'x') + "_seq";
  BOOST_TEST(has(problem(own), "its own counter"));
  BOOST_TEST(source("sqlite:x.db?table=pg_leases").table() == "pg_leases");
  BOOST_TEST(source("postgresql:///x?table=sqlite_x").table() == "sqlite_x");
  BOOST_TEST(source("postgresql:///x?table=ops.y").table() == "ops.y");
}

BOOST_AUTO_TEST_CASE(refuses_options_out_of_range) {
  store_options options;
  options.timeout = 99ms;
  BOOST_TEST(has(problem("memory:", options), "timeout"));
  options.timeout = 11min;
  BOOST_TEST(has(problem("memory:", options), "timeout"));
  options = {};
  options.table = "1st";
  BOOST_TEST(has(problem("sqlite:x.db", options), "\"1st\""));
  options.table = "a\"b";
  BOOST_TEST(has(problem("postgresql:///x", options), "table"));
  options.table = std::string(64, 'x');
  BOOST_TEST(has(problem("postgresql:///x", options), "63"));
  options = {};
  options.clock = nullptr;
  BOOST_TEST(has(problem("memory:", options), "clock"));
}

BOOST_AUTO_TEST_CASE(a_table_in_the_url_wins) {
  store_options options;
  options.table = "from_options";
  auto statements
    = source("postgresql:///x?table=ops.from_url", options).schema_statements();
  auto all = std::string{};
  for (auto& stmt : statements)
    all += stmt + "\n";
  BOOST_TEST(has(all, "\"ops\".\"from_url\""));
  BOOST_TEST(has(all, "nextval('\"ops\".\"from_url_seq\"')"));
  BOOST_TEST(!has(all, "from_options"));
  BOOST_TEST(!has(all, "leasehold_leases"));
  all.clear();
  for (auto& stmt :
       source("mysql:///x?table=ops.from_url", options).schema_statements())
    all += stmt + "\n";
  BOOST_TEST(has(all, "`ops`.`from_url` ("));
  BOOST_TEST(has(all, "`ops`.`from_url_seq` ("));
  BOOST_TEST(!has(all, "from_options"));
  BOOST_TEST(!has(all, "leasehold_leases"));
}

BOOST_AUTO_TEST_CASE(schema_statements_hold_neither_comments_nor_semicolons) {
  for (auto url : {"postgresql:///x", "mysql:///x", "sqlite:x.db"}) {
    auto statements = source(url).schema_statements();
    BOOST_TEST(statements.size() >= 3u);
    for (auto& stmt : statements) {
      BOOST_TEST(!has(stmt, "--"));
      BOOST_TEST(!has(stmt, ";"));
      BOOST_TEST(!stmt.empty());
    }
  }
  BOOST_TEST(source("memory:").schema_statements().empty());
}

// libmariadb has SIGPIPE ignored when it starts, and children would inherit it.
BOOST_AUTO_TEST_CASE(a_session_leaves_the_signals_of_the_program_alone) {
  auto before = std::signal(SIGPIPE, SIG_DFL);
  auto op = operation::acquire("job", "ann", 10s);
  auto result
    = source("mysql://ann@127.0.0.1:1/x").open()->execute({&op, 1})[0];
  BOOST_TEST((result.code == ec::unavailable));
  BOOST_TEST((std::signal(SIGPIPE, before) == SIG_DFL));
}

BOOST_AUTO_TEST_CASE(sessions_of_one_memory_source_share_their_data) {
  auto src = source("memory:");
  auto copy = src;
  auto op = operation::acquire("job", "ann", 10s);
  BOOST_TEST((src.open()->execute({&op, 1})[0].code == ec::none));
  BOOST_TEST((copy.open()->execute({&op, 1})[0].code == ec::lease_held));
  BOOST_TEST((source("memory:").open()->execute({&op, 1})[0].code == ec::none));
  BOOST_TEST(src.single_writer());
  BOOST_TEST(src.check_schema().ok());
  BOOST_TEST(src.apply_schema().ok());
}

BOOST_AUTO_TEST_CASE(the_clock_of_a_store_can_be_compared_with_ours) {
  store_options options;
  options.clock = [] { return std::int64_t{5'000'000}; };
  auto st = source("memory:", options).open();
  // Ours goes on by 10 ms whenever somebody looks.
  std::int64_t now = 1'990'000;
  auto found = compare_clocks(*st, [&] { return now += 10'000; });
  BOOST_TEST((found.code == ec::none));
  BOOST_TEST((found.ahead == 2'995ms));
  BOOST_TEST((found.tolerance == 5ms));
}

BOOST_AUTO_TEST_SUITE_END()
