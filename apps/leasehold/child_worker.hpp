// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/config/options.hpp"
#include "leasehold/process/supervisor.hpp"
#include "leasehold/work.hpp"

#include <memory>
#include <string>

namespace leasehold::app {

/// From the supervisor's thread to a child worker.
struct child_ended {
  process::child_exit how;
};

struct child_asks {
  process::child_request request;
  process::child_events::answer_function answer;
};

/// What an exit code of the child means for its run.
work_result result_of(const process::child_exit& how,
                      const config::command& rules);

/// Starts one child process per run, as `settings.run` says. The worker hands
/// the wish to stop, and the loss of the lease, to the supervisor; it ends when
/// no process of the child's group is left. A unit that was retired before is
/// retired again without starting anything. `settings` and `children` outlive
/// all workers.
worker_factory run_child(const config::pool& settings,
                         process::supervisor& children);

} // namespace leasehold::app

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(leasehold::app::child_ended)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(leasehold::app::child_asks)

CAF_BEGIN_TYPE_ID_BLOCK(leasehold_app, caf::id_block::leasehold::end)
  CAF_ADD_TYPE_ID(leasehold_app, (leasehold::app::child_ended))
  CAF_ADD_TYPE_ID(leasehold_app, (leasehold::app::child_asks))
CAF_END_TYPE_ID_BLOCK(leasehold_app)
