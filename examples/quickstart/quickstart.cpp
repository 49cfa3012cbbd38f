// SPDX-License-Identifier: Apache-2.0
//
// Counts to 100 under a lease, twice at a time. Kill it and start it again: it
// goes on where it was.
#include "leasehold/backend/open.hpp"
#include "leasehold/backend_actor.hpp"
#include "leasehold/lease_actor.hpp"
#include "leasehold/pool.hpp"

using namespace leasehold;

int main(int argc, char** argv) {
  config_base<caf::id_block::leasehold> cfg;
  caf::actor_system sys{cfg};
  auto source = std::get<backend::store_source>(backend::store_source::parse(
    argc > 1 ? argv[1] : "sqlite:///var/tmp/leases.db"));
  source.apply_schema();
  auto store = spawn_backend(sys, source.open());
  lease_options who;
  who.holder_id = "node-a";
  auto lease = *spawn_lease(sys, store, who);
  pool_options options;
  options.lease = lease;
  options.work_ids = {"eu", "us"};
  options.work = run_function([](work_context& job) {
    auto done = std::stoi(job.found().state.value_or("0"));
    while (done < 100 && !job.stop_requested())
      if (job.checkpoint(std::to_string(++done)))
        break; // fenced: somebody else has it now
    return done == 100 ? retired()
                       : failed("stopped at " + std::to_string(done));
  });
  auto pool = *spawn_pool(sys, options);
  caf::scoped_actor self{sys};
  post(self, run_pool{})
    .request(pool, caf::infinite)
    .receive([](const pool_result&) {}, [](const caf::error&) {});
  caf::anon_send_exit(pool, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(lease, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(store, caf::exit_reason::user_shutdown);
}
