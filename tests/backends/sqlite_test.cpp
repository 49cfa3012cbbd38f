// SPDX-License-Identifier: Apache-2.0
// What can go wrong with a file.
#include "leasehold/backend/open.hpp"

#include "support/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>
#include <sched.h>
#include <soci/soci.h>
#include <soci/sqlite3/soci-sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace leasehold;
using namespace leasehold::backend;
using namespace std::chrono_literals;

namespace {

struct fixture {
  store_source source(const std::string& name = "leases.db",
                      duration timeout = 5s) {
    store_options options;
    options.timeout = timeout;
    auto result
      = store_source::parse("sqlite://" + folder.path() + "/" + name, options);
    if (auto why = std::get_if<failure>(&result))
      BOOST_FAIL(why->detail);
    return std::get<store_source>(std::move(result));
  }

  std::string path(const std::string& name = "leases.db") {
    return folder.path() + "/" + name;
  }

  outcome acquire(store& st, const std::string& work_id,
                  const std::string& holder = "ann") {
    auto op = operation::acquire(work_id, holder, 60s);
    auto result = st.execute({&op, 1}).front();
    if (!result.detail.empty())
      BOOST_TEST_MESSAGE(result.detail);
    return result;
  }

  /// Another user of the file, past the code under test.
  soci::session other(const char* name = "leases.db") {
    return soci::session{soci::sqlite3, "db=" + path(name)};
  }

  test::temporary_folder folder;
};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(sqlite_fault_suite, fixture)

BOOST_AUTO_TEST_CASE(a_missing_file_is_not_created_by_looking) {
  auto src = source();
  auto st = src.open();
  auto result = acquire(*st, "job");
  BOOST_TEST((result.code == ec::store_failed));
  BOOST_TEST((result.also == ec::schema_missing));
  BOOST_TEST(has(result.detail, "leasehold schema apply -s sqlite:///"));
  BOOST_TEST((src.check_schema().also == ec::schema_missing));
  BOOST_TEST(!std::filesystem::exists(path()));
  BOOST_TEST(src.apply_schema().ok());
  BOOST_TEST((acquire(*st, "job").code == ec::none));
}

BOOST_AUTO_TEST_CASE(a_missing_folder_is_named) {
  auto src = source("nowhere/leases.db");
  BOOST_TEST(has(src.apply_schema().detail, "nowhere does not exist"));
  auto result = acquire(*src.open(), "job");
  BOOST_TEST((result.code == ec::store_failed));
  BOOST_TEST((result.also == ec::config_invalid));
  BOOST_TEST(has(result.detail, "nowhere does not exist"));
}

BOOST_AUTO_TEST_CASE(a_path_that_can_be_no_file_is_a_mistake) {
  std::filesystem::create_directory(path("folder"));
  std::ofstream{path("file")}.flush();
  for (auto name : {"folder", "file/leases.db"}) {
    auto src = source(name);
    BOOST_TEST((src.apply_schema().also == ec::config_invalid));
    BOOST_TEST((src.check_schema().also == ec::config_invalid));
    auto result = acquire(*src.open(), "job");
    BOOST_TEST((result.code == ec::store_failed));
    BOOST_TEST((result.also == ec::config_invalid));
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_database_says_what_to_do) {
  std::ofstream{path()} << std::string(8192, 'x');
  auto src = source();
  for (auto& found : {src.apply_schema(), src.check_schema()}) {
    BOOST_TEST((found.code == ec::store_failed));
    BOOST_TEST((found.also == ec::not_a_store));
    BOOST_TEST(has(found.detail, "choose a path"));
  }
  BOOST_TEST((src.open()->list({}).also == ec::not_a_store));
}

BOOST_AUTO_TEST_CASE(a_damaged_database_says_what_to_do) {
  auto src = source();
  BOOST_TEST(src.apply_schema().ok());
  {
    auto sql = other();
    sql << "pragma journal_mode = delete";
  }
  std::fstream file{path(), std::ios::in | std::ios::out | std::ios::binary};
  file.seekp(100);
  file << std::string(std::filesystem::file_size(path()) - 100, 'x');
  file.close();
  auto result = acquire(*src.open(), "job");
  BOOST_TEST((result.code == ec::store_failed));
  BOOST_TEST((result.also == ec::not_a_store), result.detail);
  BOOST_TEST(has(result.detail, "put a copy in its place"));
}

BOOST_AUTO_TEST_CASE(a_table_of_another_program_is_left_alone) {
  {
    auto sql = other();
    sql << "create table leasehold_leases (a int)";
  }
  auto src = source();
  for (auto& found : {src.apply_schema(), src.check_schema()}) {
    BOOST_TEST((found.code == ec::store_failed));
    BOOST_TEST((found.also == ec::not_a_store));
    BOOST_TEST(has(found.detail, "is not leasehold's; rename it"));
    BOOST_TEST(has(found.detail, "`table:`"));
  }
  auto listed = src.open()->list({});
  BOOST_TEST((listed.also == ec::not_a_store));
  BOOST_TEST(has(listed.detail, "is not leasehold's; rename it"));
}

BOOST_AUTO_TEST_CASE(what_applying_does_not_change_is_not_to_be_applied_again) {
  auto src = source();
  BOOST_TEST(src.apply_schema().ok());
  {
    auto sql = other();
    sql << "alter table leasehold_leases drop column request_id";
  }
  auto left = src.apply_schema();
  BOOST_TEST((left.also == ec::not_a_store));
  BOOST_TEST(has(left.detail, "column request_id is missing\n"));
  BOOST_TEST(has(left.detail, "leaves alone what is there"));
}

// contract 240
BOOST_AUTO_TEST_CASE(a_missing_table_says_what_to_do) {
  std::ofstream{path()}.flush();
  auto src = source();
  auto st = src.open();
  auto result = acquire(*st, "job");
  BOOST_TEST((result.code == ec::store_failed));
  BOOST_TEST((result.also == ec::schema_missing));
  BOOST_TEST((st->list({}).also == ec::schema_missing));
  BOOST_TEST((st->sweep({}).also == ec::schema_missing));
  BOOST_TEST(
    has(src.check_schema().detail, "table leasehold_leases does not exist"));
  BOOST_TEST(src.apply_schema().ok());
  BOOST_TEST((acquire(*st, "job").code == ec::none));
}

BOOST_AUTO_TEST_CASE(a_check_names_each_difference) {
  auto src = source();
  BOOST_TEST(src.apply_schema().ok());
  {
    auto sql = other();
    sql << "alter table leasehold_leases drop column request_id";
    sql << "alter table leasehold_leases rename column acquired_at to born_at";
  }
  auto found = src.check_schema();
  BOOST_TEST((found.also == ec::schema_missing));
  BOOST_TEST(found.detail
             == "table leasehold_leases: column acquired_at is missing\n"
                "table leasehold_leases: column request_id is missing");
}

// contract 233
BOOST_AUTO_TEST_CASE(many_may_apply_the_schema_at_once) {
  std::vector<failure> results(20);
  std::vector<std::thread> threads;
  for (auto& result : results)
    threads.emplace_back([&, this] { result = source().apply_schema(); });
  for (auto& thread : threads)
    thread.join();
  for (auto& result : results)
    BOOST_TEST(result.detail == "");
  BOOST_TEST((acquire(*source().open(), "job").code == ec::none));
}

// contract 234
BOOST_AUTO_TEST_CASE(the_exit_columns_refuse_unknown_words) {
  BOOST_TEST(source().apply_schema().ok());
  BOOST_TEST((acquire(*source().open(), "job").code == ec::none));
  auto sql = other();
  BOOST_CHECK_THROW(sql << "update leasehold_leases set exit_mode = 'none'",
                    soci::soci_error);
  BOOST_CHECK_THROW(sql << "update leasehold_leases set prev_exit_mode = 'x'",
                    soci::soci_error);
}

BOOST_AUTO_TEST_CASE(paths_with_blanks_and_odd_characters_work) {
  std::size_t number = 0;
  for (auto name : {"a%20b%20%20c.db", "quote'.db", "%25percent%3Fmark.db",
                    "b%C3%A4r%23.db", "semi;colon=x.db", "trail%20"}) {
    auto src = source(name);
    BOOST_TEST(src.apply_schema().detail == "");
    BOOST_TEST((acquire(*src.open(), "job").code == ec::none));
    ++number;
  }
  std::size_t files = 0;
  for (auto& entry : std::filesystem::directory_iterator{folder.path()}) {
    auto ending = entry.path().extension().string();
    if (!ending.ends_with("-wal") && !ending.ends_with("-shm"))
      ++files;
  }
  BOOST_TEST(files == number);
  BOOST_TEST(std::filesystem::exists(path("a b  c.db")));
}

BOOST_AUTO_TEST_CASE(a_lock_that_stays_is_reported_within_the_limit) {
  BOOST_TEST(source().apply_schema().ok());
  auto st = source("leases.db", 300ms).open();
  BOOST_TEST((acquire(*st, "job").code == ec::none));
  auto sql = other();
  sql << "begin immediate";
  auto start = std::chrono::steady_clock::now();
  auto result = acquire(*st, "next");
  auto took = std::chrono::steady_clock::now() - start;
  BOOST_TEST((result.code == ec::unavailable));
  BOOST_TEST((took >= 290ms && took < 500ms));
  // What only reads does not need the lock.
  BOOST_TEST((acquire(*st, "job", "bob").code == ec::lease_held));
  sql << "rollback";
  BOOST_TEST((acquire(*st, "next").code == ec::none));
}

BOOST_AUTO_TEST_CASE(a_refused_acquire_writes_nothing) {
  auto src = source();
  BOOST_TEST(src.apply_schema().ok());
  auto st = src.open();
  BOOST_TEST((acquire(*st, "job").code == ec::none));
  auto size = std::filesystem::file_size(path("leases.db-wal"));
  auto time = std::filesystem::last_write_time(path("leases.db-wal"));
  for (int i = 0; i < 50; ++i)
    BOOST_TEST((acquire(*st, "job", "bob").code == ec::lease_held));
  BOOST_TEST(std::filesystem::file_size(path("leases.db-wal")) == size);
  BOOST_TEST((std::filesystem::last_write_time(path("leases.db-wal")) == time));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_no_database_fails_for_good) {
  std::ofstream{path()} << std::string(5000, 'x');
  auto src = source();
  auto st = src.open();
  auto result = acquire(*st, "job");
  BOOST_TEST((result.code == ec::store_failed));
  BOOST_TEST(has(result.detail, "not a database"));
  BOOST_TEST((src.apply_schema().code == ec::store_failed));
  BOOST_TEST((st->list({}).code == ec::store_failed));
  // Healed by whoever puts a good file there.
  std::filesystem::remove(path());
  BOOST_TEST(src.apply_schema().ok());
  BOOST_TEST((acquire(*st, "job").code == ec::none));
}

BOOST_AUTO_TEST_CASE(a_corrupt_file_fails_for_good) {
  auto src = source();
  BOOST_TEST(src.apply_schema().ok());
  {
    auto st = src.open();
    std::vector<operation> ops;
    for (int i = 0; i < 500; ++i)
      ops.push_back(operation::acquire("job" + std::to_string(i), "ann", 60s));
    BOOST_TEST((st->execute(ops).back().code == ec::none));
  }
  auto size = std::filesystem::file_size(path());
  {
    std::fstream file{path(), std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(4096);
    file << std::string(size - 4096, '\x5a');
  }
  auto result = acquire(*src.open(), "job400", "bob");
  BOOST_TEST((result.code == ec::store_failed));
  BOOST_TEST((src.open()->list({}).code == ec::store_failed));
}

BOOST_AUTO_TEST_CASE(a_replaced_file_is_noticed) {
  auto src = source();
  BOOST_TEST(src.apply_schema().ok());
  auto st = src.open();
  BOOST_TEST((acquire(*st, "job").code == ec::none));
  std::filesystem::remove(path());
  std::filesystem::remove(path("leases.db-wal"));
  std::filesystem::remove(path("leases.db-shm"));
  BOOST_TEST((acquire(*st, "job", "bob").also == ec::schema_missing));
  BOOST_TEST(src.apply_schema().ok());
  BOOST_TEST((acquire(*st, "job", "bob").code == ec::none));
}

BOOST_AUTO_TEST_CASE(a_read_only_file_answers_reads_and_refuses_claims) {
  auto src = source();
  BOOST_TEST(src.apply_schema().ok());
  auto keeper = src.open();
  BOOST_TEST((acquire(*keeper, "job").code == ec::none));
  for (auto name : {"leases.db", "leases.db-wal", "leases.db-shm"})
    ::chmod(path(name).c_str(), 0444);
  ::chmod(folder.path().c_str(), 0555);
  // Root may write anything; nobody may not.
  auto is_root = ::geteuid() == 0;
  if (is_root)
    BOOST_TEST_REQUIRE(::seteuid(65534) == 0);
  outcome claim;
  outcome refusal;
  {
    auto st = src.open();
    refusal = acquire(*st, "job", "bob");
    claim = acquire(*st, "next", "bob");
  }
  if (is_root)
    BOOST_TEST_REQUIRE(::seteuid(0) == 0);
  ::chmod(folder.path().c_str(), 0755);
  BOOST_TEST((refusal.code == ec::lease_held));
  BOOST_TEST((claim.code == ec::store_failed));
  BOOST_TEST(has(claim.detail, "readonly"));
}

BOOST_AUTO_TEST_CASE(a_state_over_the_limit_leaves_the_rest_of_a_batch_alone) {
  auto src = source();
  BOOST_TEST(src.apply_schema().ok());
  auto st = src.open();
  auto granted = acquire(*st, "job");
  auto tok = internal::token_access::make("job", "ann", granted.number, 0);
  std::vector<operation> ops{
    operation::renew(tok, 60s),
    operation::checkpoint(tok, 60s, std::string(17u * 1024 * 1024, 'x')),
    operation::checkpoint(tok, 60s, "small")};
  auto results = st->execute(ops);
  BOOST_TEST((results[0].code == ec::none));
  BOOST_TEST((results[1].code == ec::state_too_large));
  BOOST_TEST(results[1].detail.size() < 200u);
  BOOST_TEST((results[2].code == ec::none));
}

// contract 76
BOOST_AUTO_TEST_CASE(a_counter_behind_the_rows_is_found_and_repaired) {
  auto src = source();
  BOOST_TEST(src.apply_schema().ok());
  auto st = src.open();
  for (auto id : {"a", "b", "c"})
    BOOST_TEST((acquire(*st, id).code == ec::none));
  for (auto damage : {"update leasehold_leases_seq set last_number = 1",
                      "delete from leasehold_leases_seq"}) {
    other() << damage;
    auto found = src.check_schema();
    BOOST_TEST((found.code == ec::store_failed));
    BOOST_TEST((found.also == ec::schema_missing));
    BOOST_TEST(has(found.detail, "is behind the numbers of table "
                                 "leasehold_leases, "));
    BOOST_TEST(has(found.detail, "leasehold schema apply -s sqlite:"));
    auto highest = 0;
    other() << "select max(fencing_token) from leasehold_leases",
      soci::into(highest);
    BOOST_TEST(src.apply_schema().detail == "");
    BOOST_TEST(src.check_schema().detail == "");
    BOOST_TEST((acquire(*st, std::string{"next"} + damage).number > highest));
  }
}

// A disk that fills up while a checkpoint is written: a file system of 1 MiB,
// for a process of its own, as only that may mount one.
BOOST_AUTO_TEST_CASE(a_full_disk_refuses_and_recovers) {
  auto src = source("disk/leases.db");
  std::filesystem::create_directory(path("disk"));
  constexpr auto skipped = 77;
  auto child = ::fork();
  BOOST_TEST_REQUIRE(child >= 0);
  if (child == 0) {
    auto expect = [number = 0](bool good) mutable {
      ++number;
      if (!good)
        ::_exit(number);
    };
    auto flags = CLONE_NEWNS | (::geteuid() == 0 ? 0 : CLONE_NEWUSER);
    if (::unshare(flags) != 0
        || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0
        || ::mount("none", path("disk").c_str(), "tmpfs", 0, "size=1m") != 0)
      ::_exit(skipped);
    expect(src.apply_schema().ok());
    auto st = src.open();
    auto run = [&](const operation& op) {
      return st->execute({&op, 1}).front();
    };
    auto granted = run(operation::acquire("job", "ann", 60s));
    auto tok = internal::token_access::make("job", "ann", granted.number, 0);
    expect(run(operation::checkpoint(tok, 60s, "small")).ok());
    auto large
      = run(operation::checkpoint(tok, 60s, std::string(2'000'000, 'x')));
    // 3: surely not applied, and so it is.
    expect(large.code == ec::unavailable);
    expect(run(operation::read(tok)).previous.state.value_or("") == "small");
    expect(src.open()->list({}).rows.size() == 1);
    // Small things find room, or say that they do not; nothing is half done.
    auto renewed = run(operation::renew(tok, 60s));
    expect(renewed.ok() || renewed.code == ec::unavailable);
    expect(run(operation::read(tok)).previous.state.value_or("") == "small");
    ::_exit(0);
  }
  auto status = 0;
  ::waitpid(child, &status, 0);
  BOOST_TEST_REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == skipped)
    BOOST_TEST_MESSAGE("skipped: no file system may be mounted here");
  else
    BOOST_TEST(WEXITSTATUS(status) == 0);
}

// As a quota would: no file grows beyond a size.
BOOST_AUTO_TEST_CASE(a_write_that_fails_in_a_commit_is_unknown_and_undone) {
  auto src = source();
  BOOST_TEST(src.apply_schema().ok());
  auto st = src.open();
  auto granted = acquire(*st, "job");
  auto tok = internal::token_access::make("job", "ann", granted.number, 0);
  auto run = [&](const operation& op) { return st->execute({&op, 1}).front(); };
  BOOST_TEST(run(operation::checkpoint(tok, 60s, "small", 1)).ok());
  auto large = operation::checkpoint(tok, 60s, std::string(500'000, 'x'), 2);
  auto before = ::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  auto limit = old;
  limit.rlim_cur = std::filesystem::file_size(path("leases.db-wal")) + 100'000;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  auto result = run(large);
  auto found = run(operation::read(tok)).previous.state.value_or("");
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, before);
  BOOST_TEST((result.code == ec::unknown_outcome));
  BOOST_TEST(found == "small");
  BOOST_TEST(run(large).ok());
  BOOST_TEST(run(operation::read(tok)).previous.state.value_or("").size()
             == 500'000u);
}

BOOST_AUTO_TEST_SUITE_END()
