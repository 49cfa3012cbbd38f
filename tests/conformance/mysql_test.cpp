// SPDX-License-Identifier: Apache-2.0
#include "conformance/backend_fixture.hpp"
#include "support/mysql.hpp"

using namespace leasehold;
using namespace leasehold::conformance;

/// Time cannot be moved on a server; instead, all rows grow older.
struct mysql_subject {
  static constexpr bool exact_time = false;

  mysql_subject() {
    auto applied = source.apply_schema();
    BOOST_TEST_REQUIRE(applied.detail == "");
    side.run("delete from conformance");
  }

  store_ptr open() {
    return source.open();
  }

  void pass(duration x) {
    auto age = std::to_string(x.count());
    side.run("update conformance set expires_at = expires_at - " + age
             + ", acquired_at = acquired_at - " + age
             + ", updated_at = updated_at - " + age);
  }

  static backend::store_source make() {
    backend::store_options options;
    options.table = "conformance";
    options.timeout = 20s;
    return test::mysql_source(test::mysql_url(), options);
  }

  test::side_connection side;
  backend::store_source source = make();
};

BOOST_FIXTURE_TEST_SUITE(mysql_conformance_suite,
                         backend_fixture<mysql_subject>)

#include "conformance/backend_suite.hpp"

BOOST_AUTO_TEST_SUITE_END()
