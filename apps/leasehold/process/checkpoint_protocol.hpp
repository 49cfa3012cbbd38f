// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/duration.hpp"
#include "leasehold/error.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// What a child and its runner say to each other over the socket that
/// LEASEHOLD_SOCKET names: one JSON object a line, each answered by one line.
///
///     {"op":"put","state":"text"}         {"ok":true,"stop_requested":false}
///     {"op":"put","state_base64":"AAE="}
///     {"op":"get"} {"ok":true,"state":"text","state_base64":"dGV4dA=="}
///     {"op":"window"}      {"ok":true,"window_left_seconds":12.5,
///                           "max_state_bytes":16777216,
///                           "stop_requested":false}
///     anything that fails  {"ok":false,"error":"fenced","exit_code":79,
///                           "message":"..."}
///
/// An empty state means clear: the next holder finds none. In an answer
/// `state` is null if the bytes are not UTF-8; both are null if there is no
/// state. State bytes never appear in a message. All functions are pure and
/// may be called from any thread.
namespace leasehold::process {

enum class checkpoint_op : std::uint8_t { put, get, window };

/// What a child asks for.
struct child_request {
  checkpoint_op op = checkpoint_op::get;
  /// The bytes to store; set for `put` only.
  std::optional<std::string> state;
};

/// What a child is told.
struct child_reply {
  /// `none` for success.
  ec code = ec::none;
  /// A second code that says more, for example schema_missing.
  ec also = ec::none;
  /// For people; must not contain state. Replaces the explanation of `code`.
  std::string detail;
  /// For `get`: absent if no state was ever stored.
  std::optional<std::string> state;
  /// For `window`.
  duration window_left{0};
  std::size_t max_state_bytes = 0;
  bool stop_requested = false;
};

/// A request, or the line that refuses it.
struct parsed_request {
  std::optional<child_request> request;
  std::string refusal;
};

/// The process exit code that `leasehold checkpoint` ends with.
int checkpoint_exit_code(ec code, ec also = ec::none) noexcept;

/// Longest line that can carry a state of `max_state_bytes`, however it is
/// written: JSON may spend six characters on a byte (`\u0001`).
constexpr std::size_t max_request_bytes(std::size_t max_state_bytes) noexcept {
  return 6 * max_state_bytes + 1024;
}

/// Reads one line, without its newline.
parsed_request parse_request(std::string_view line,
                             std::size_t max_state_bytes);

/// One line with its newline.
std::string format_request(const child_request& request);

/// One line with its newline.
std::string format_reply(checkpoint_op op, const child_reply& reply);

/// One line with its newline, for requests that reach nobody.
std::string format_error(std::string_view error, int exit_code,
                         std::string_view message);

/// An answer as the child's side reads it.
struct checkpoint_result {
  /// 0, or what the calling program should exit with.
  int exit_code = 0;
  /// Name of the error, as in `to_string(ec)`; empty on success.
  std::string error;
  std::string message;
  std::optional<std::string> state;
  duration window_left{0};
  /// The runner refuses more; 0 if it does not say.
  std::size_t max_state_bytes = 0;
  bool stop_requested = false;

  bool ok() const noexcept {
    return exit_code == 0;
  }
};

/// Reads an answer; nothing if the line is not one.
std::optional<checkpoint_result> parse_reply(std::string_view line);

} // namespace leasehold::process
