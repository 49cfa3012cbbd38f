// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/alarms.hpp"
#include "leasehold/messages.hpp"
#include "leasehold/slot.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace leasehold {

/// What a POOL is built from.
struct pool_options {
  lease_actor lease;

  /// At least one, no two equal. More can be added, and any removed, later.
  std::vector<std::string> work_ids;

  worker_factory work;

  slot_timing timing;

  /// How many leases this pool holds at once; 0 = all it gets.
  std::uint32_t max_held = 0;

  /// May be null.
  pool_observer_ptr observer;

  /// Null means the system's.
  random_source_ptr random;
};

/// The first problem, in this order: pool_lease_required, pool_empty_work_ids,
/// pool_empty_work_id, pool_duplicate_work_id, pool_work_fn_required; or no
/// error. All match pool_config_invalid and config_invalid.
caf::error check(const pool_options& options);

namespace internal {

using pool_impl = typed_actor<
  caf::result<pool_result>(run_pool), caf::result<void>(stop_pool),
  caf::result<active_slots>(get_active_slots),
  caf::result<added_work>(add_work), caf::result<removed_work>(remove_work),
  // From SLOTs.
  caf::result<void>(slot_wants), caf::result<void>(slot_is),
  caf::result<void>(slot_sleeps),
  // To itself: look whose pause is over.
  caf::result<void>(wake)>;

/// See pool_actor. Hands out permits (max_held), keeps the pauses of all slots
/// behind one timer, and counts how slots end. If it ends before them, they
/// are stopped as by stop_pool and end by themselves.
class pool : public pool_impl::base {
public:
  pool(caf::actor_config& cfg, pool_options options);

  const char* name() const override;

protected:
  behavior_type make_behavior() override;

  void on_exit() override;

private:
  /// A call to remove_work that is not answered yet.
  struct removal {
    caf::typed_response_promise<removed_work> promise;
    removed_work count;
    std::size_t missing = 0;
  };

  /// A unit of work. Its index stays the same while it is in the pool.
  struct member {
    /// In index_of_. Null if there is none.
    const std::string* work_id = nullptr;
    slot_impl actor;
    slot_phase phase = slot_phase::idle;
    bool permit = false;
    /// Not empty while it is being removed.
    std::vector<std::shared_ptr<removal>> leaving;
    /// It was added again before its removal had ended.
    bool returns = false;
  };

  void run(caf::typed_response_promise<pool_result> promise);

  void stop(stop_mode how);

  caf::error add(const std::vector<std::string>& work_ids);

  void put(const std::string& work_id);

  caf::result<removed_work> remove(const remove_work& request);

  /// Makes room for another member.
  void erase(std::uint32_t index);

  /// It waits for neither a permit nor the end of a pause.
  void forget_turn(std::uint32_t index);

  void start_slot(std::uint32_t index);

  void hand_out_permits();

  void on_slot_down(std::uint32_t index);

  static bool has_ended(const member& x);

  void finish_if_all_ended();

  std::uint32_t max_held_;
  std::shared_ptr<const slot_options> shared_;
  watches watches_;
  std::vector<member> members_;
  std::unordered_map<std::string, std::uint32_t> index_of_;
  /// Members without a work ID.
  std::vector<std::uint32_t> vacant_;
  /// Indexes of slots that wait for a permit, in order.
  std::deque<std::uint32_t> queue_;
  std::uint32_t permits_out_ = 0;
  std::uint32_t alive_ = 0;
  bool running_ = false;
  bool stopping_ = false;
  bool lease_is_gone_ = false;
  caf::typed_response_promise<pool_result> promise_;
  alarms<std::uint32_t> alarms_;
};

} // namespace internal

/// Spawns a POOL; nothing starts before run_pool. See `check` for the errors.
caf::expected<pool_actor> spawn_pool(caf::actor_system& sys,
                                     pool_options options);

} // namespace leasehold
