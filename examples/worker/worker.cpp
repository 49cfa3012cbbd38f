// SPDX-License-Identifier: Apache-2.0
//
// The same count as in quickstart, by an actor per run.
#include "leasehold/worker.hpp"

#include "leasehold/backend/open.hpp"
#include "leasehold/backend_actor.hpp"
#include "leasehold/lease_actor.hpp"
#include "leasehold/runner.hpp"

#include <cstdio>

using namespace leasehold;

namespace {

// README.md shows this function.
auto count_to_100(caf::event_based_actor* self, assignment job) {
  post(self, std::stoi(job.found.state.value_or("0"))).send(caf::actor{self});
  return caf::behavior{[=](int done) {
    if (done == 100)
      return finish(self, job, retired());
    checkpoint(self, job, std::to_string(++done)).then([=](confirmation) {
      post(self, done).send(caf::actor{self});
    });
  }};
}

} // namespace

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
  runner_options options;
  options.lease = lease;
  options.work = worker_from(count_to_100);
  auto runner = *spawn_runner(sys, options);
  auto status = 1;
  {
    caf::scoped_actor self{sys};
    run_work eu;
    eu.work_id = "eu";
    post(self, eu)
      .request(runner, caf::infinite)
      .receive([&](const run_result&) { status = 0; },
               [](const caf::error& err) { std::puts(render(err).c_str()); });
  }
  caf::anon_send_exit(runner, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(lease, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(store, caf::exit_reason::user_shutdown);
  return status;
}
