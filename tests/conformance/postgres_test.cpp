// SPDX-License-Identifier: Apache-2.0
#include "conformance/backend_fixture.hpp"
#include "support/postgres.hpp"

using namespace leasehold;
using namespace leasehold::conformance;

/// Time cannot be moved on a server; instead, all rows grow older.
struct postgres_subject {
  static constexpr bool exact_time = false;

  postgres_subject() {
    auto applied = source.apply_schema();
    BOOST_TEST_REQUIRE(applied.detail == "");
    side.run("delete from conformance");
  }

  store_ptr open() {
    return source.open();
  }

  void pass(duration x) {
    auto age = std::to_string(x.count()) + " * interval '1 microsecond'";
    side.run("update conformance set expires_at = expires_at - " + age
             + ", acquired_at = acquired_at - " + age
             + ", updated_at = updated_at - " + age);
  }

  static backend::store_source make() {
    backend::store_options options;
    options.table = "conformance";
    options.timeout = 20s;
    return test::postgres_source(test::postgres_url(), options);
  }

  test::side_connection side;
  backend::store_source source = make();
};

BOOST_FIXTURE_TEST_SUITE(postgres_conformance_suite,
                         backend_fixture<postgres_subject>)

#include "conformance/backend_suite.hpp"

BOOST_AUTO_TEST_SUITE_END()
