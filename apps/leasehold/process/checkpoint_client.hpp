// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/duration.hpp"
#include "leasehold/process/checkpoint_protocol.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace leasehold::process {

/// How far a state was read.
enum class read_result : std::uint8_t { complete, over_limit, failed };

/// Appends what `fd` holds to `into`, to its end or until `into` has more than
/// `limit` bytes. A failure leaves its reason in errno; what was read before it
/// is not the state.
read_result read_state(int fd, std::size_t limit, std::string& into);

/// The child's side of the checkpoint socket. Blocks; every call opens a
/// connection of its own, takes at most `timeout`, and reports all failures in
/// its result. May be used by several threads.
class checkpoint_client {
public:
  explicit checkpoint_client(std::string socket_path,
                             duration timeout = std::chrono::seconds{30});

  /// Takes the path from LEASEHOLD_SOCKET. Without that variable every call
  /// fails with exit code 64 and says why.
  static checkpoint_client from_environment(duration timeout
                                            = std::chrono::seconds{30});

  /// A failure with exit code 69 and error `unknown_outcome` may have stored
  /// the state; put it again. An empty state clears what was stored.
  checkpoint_result put(std::string state) const;

  checkpoint_result get() const;

  checkpoint_result window() const;

private:
  checkpoint_result ask(const child_request& request) const;

  std::string socket_path_;
  duration timeout_;
};

} // namespace leasehold::process
