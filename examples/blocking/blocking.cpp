// SPDX-License-Identifier: Apache-2.0
//
// The same count as in quickstart, without actors.
#include "leasehold/blocking.hpp"

using namespace leasehold::blocking;

int main(int argc, char** argv) {
  client leases{argc > 1 ? argv[1] : "sqlite:///var/tmp/leases.db",
                {.holder_id = "node-a",
                 .schema = leasehold::backend::schema_policy::apply}};
  auto got = leases.run("eu", [](work_context& job) {
    auto done = std::stoi(job.found().state.value_or("0"));
    while (done < 100 && !job.stop_requested())
      if (!job.checkpoint(std::to_string(++done)).ok())
        break; // fenced: somebody else has it now
    return done == 100 ? retired() : failed("at " + std::to_string(done));
  });
  return got.ok() || got.matches(leasehold::ec::lease_held) ? 0 : 1;
}
