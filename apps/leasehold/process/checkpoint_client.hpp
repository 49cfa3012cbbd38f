// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/duration.hpp"
#include "leasehold/process/checkpoint_protocol.hpp"

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>

namespace leasehold::process {

/// Reads a state to the end of `in`; nothing if it has more than `limit`
/// bytes.
std::optional<std::string> read_state(std::istream& in, std::size_t limit);

/// The child's side of the checkpoint socket. Blocks; every call opens a
/// connection of its own, takes at most `timeout`, and reports all failures in
/// its result. May be used by several threads.
class checkpoint_client {
public:
  explicit checkpoint_client(std::string socket_path,
                             duration timeout = std::chrono::seconds{30});

  /// Takes the path from LEASEHOLD_SOCKET. Without that variable every call
  /// fails with exit code 69 and says why.
  static checkpoint_client from_environment(duration timeout
                                            = std::chrono::seconds{30});

  /// A failure with exit code 69 and error `unknown_outcome` may have stored
  /// the state; put it again.
  checkpoint_result put(std::string state) const;

  checkpoint_result get() const;

  checkpoint_result window() const;

private:
  checkpoint_result ask(const child_request& request) const;

  std::string socket_path_;
  duration timeout_;
};

} // namespace leasehold::process
