// SPDX-License-Identifier: Apache-2.0
// The entry point of every test executable.
#define BOOST_TEST_MODULE leasehold
#define BOOST_TEST_DYN_LINK
#include <boost/test/unit_test.hpp>
