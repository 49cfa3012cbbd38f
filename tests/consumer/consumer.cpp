// SPDX-License-Identifier: Apache-2.0
#include <leasehold/backend/open.hpp>
#include <leasehold/backend_actor.hpp>
#include <leasehold/codec/binary.hpp>
#include <leasehold/lease_actor.hpp>

#include <cstdio>

using namespace leasehold;

int main() {
  config_base<caf::id_block::leasehold> cfg;
  caf::actor_system sys{cfg};
  auto source
    = std::get<backend::store_source>(backend::store_source::parse("memory:"));
  auto store = spawn_backend(sys, source.open());
  lease_options options;
  options.holder_id = "consumer";
  auto lease = *spawn_lease(sys, store, options);
  auto status = 1;
  {
    caf::scoped_actor self{sys};
    acquire_request request;
    request.work_id = "w";
    post(self, request)
      .request(lease, std::chrono::seconds{10})
      .receive(
        [&](const grant& won) {
          std::printf("%s\n", to_string(won.tok).c_str());
          auto started = decode<int>(won.found.state, codec::binary{});
          status = won.window->held() && started && *started == 0 ? 0 : 1;
        },
        [](const caf::error& err) { std::puts(render(err).c_str()); });
  }
  caf::anon_send_exit(lease, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(store, caf::exit_reason::user_shutdown);
  return status;
}
