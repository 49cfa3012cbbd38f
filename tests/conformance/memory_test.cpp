// SPDX-License-Identifier: Apache-2.0
#include "leasehold/backend/memory.hpp"

#include "conformance/backend_fixture.hpp"

using namespace leasehold;
using namespace leasehold::conformance;

struct memory_subject {
  static constexpr bool exact_time = true;

  store_ptr open() {
    return root.share();
  }

  void pass(duration x) {
    now_us += x.count();
  }

  std::int64_t now_us = 1'700'000'000'000'000;
  backend::memory_store root{[this] { return now_us; }};
};

// contract 244, 246
BOOST_FIXTURE_TEST_SUITE(memory_conformance_suite,
                         backend_fixture<memory_subject>)

#include "conformance/backend_suite.hpp"

// contract 79, 245, 247
BOOST_AUTO_TEST_CASE(two_instances_share_nothing_and_count_from_one) {
  BOOST_TEST(acquire("job").number == 1);
  BOOST_TEST(acquire("job", "bob").code == ec::lease_held);
  BOOST_TEST(acquire("next").number == 2);
  backend::memory_store other;
  BOOST_TEST(run(other, operation::acquire("job", "bob", 10s)).number == 1);
}

BOOST_AUTO_TEST_SUITE_END()
