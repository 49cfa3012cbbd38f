// SPDX-License-Identifier: Apache-2.0
#include "leasehold/backend/open.hpp"

#include "conformance/backend_fixture.hpp"
#include "support/temporary_folder.hpp"

using namespace leasehold;
using namespace leasehold::conformance;

struct sqlite_subject {
  static constexpr bool exact_time = true;

  sqlite_subject() {
    BOOST_TEST_REQUIRE(source.apply_schema().detail == "");
  }

  store_ptr open() {
    return source.open();
  }

  void pass(duration x) {
    now_us += x.count();
  }

  backend::store_source make() {
    backend::store_options options;
    options.timeout = 20s;
    options.clock = [this] { return now_us; };
    auto result = backend::store_source::parse(
      "sqlite://" + folder.path() + "/leases.db", options);
    return std::get<backend::store_source>(std::move(result));
  }

  test::temporary_folder folder;
  std::int64_t now_us = 1'700'000'000'000'000;
  backend::store_source source = make();
};

BOOST_FIXTURE_TEST_SUITE(sqlite_conformance_suite,
                         backend_fixture<sqlite_subject>)

#include "conformance/backend_suite.hpp"

BOOST_AUTO_TEST_SUITE_END()
