// SPDX-License-Identifier: Apache-2.0
#include "leasehold/observer.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;

BOOST_AUTO_TEST_SUITE(observer_suite)

// contract 215
BOOST_AUTO_TEST_CASE(observers_do_nothing_unless_they_are_told_to) {
  struct counts_one : lease_observer {
    int forgets = 0;

    void on_forget(const token&, const result_info&) override {
      ++forgets;
    }
  };

  counts_one lease;
  pool_observer pool;
  leader_observer leader;
  vacuum_observer vacuum;
  lease.on_acquire("w", {}, {}, {});
  lease.on_checkpoint({}, 1, {});
  lease.on_renew({}, 1, {}, {});
  lease.on_release({}, exit_mode::finished, {});
  lease.on_read_checkpoint({}, {}, {});
  lease.on_forget({}, {});
  lease.on_fenced({}, "Renew");
  lease.on_window_low({}, {}, 1, "");
  lease.on_window_safe({}, {});
  lease.on_lost({}, loss_report{});
  pool.on_slot_acquired({}, {});
  pool.on_slot_lost({}, ec::fenced, "");
  pool.on_slot_backoff("w", {}, ec::work_failed, "", {});
  pool.on_slot_released({}, exit_mode::finished);
  pool.on_slot_retired({});
  pool.on_slot_dead("w", ec::work_permanent, "");
  pool.on_slot_stuck({}, {});
  leader.on_elected({}, {});
  leader.on_lost({}, ec::fenced, "");
  leader.on_relinquished({}, exit_mode::finished);
  vacuum.on_sweep({}, false, 0, {});
  BOOST_TEST(lease.forgets == 1);
}

BOOST_AUTO_TEST_SUITE_END()
