// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/exit_mode.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace leasehold {

namespace internal {

struct token_access;

} // namespace internal

/// Proof of one acquisition. Hand it to anything that must refuse late writes
/// of a superseded holder: a store compares it for equality, everybody else
/// may keep the highest `number` seen for a work ID and refuse lower ones.
///
/// A token is a value: it is readable, but only a LEASE issues one. A default
/// constructed token is empty and belongs to no acquisition.
class token {
public:
  token() = default;

  const std::string& work_id() const noexcept {
    return names().work_id;
  }

  const std::string& holder_id() const noexcept {
    return names().holder_id;
  }

  /// The fencing number: above zero, and greater than that of every earlier
  /// acquisition of any work ID in the same store. Gaps mean nothing.
  std::int64_t number() const noexcept {
    return number_;
  }

  /// Expiry recorded at acquisition, in microseconds since the Unix epoch by
  /// the store's clock. It never moves, whatever renewals do.
  std::int64_t expires_us() const noexcept {
    return expires_us_;
  }

  bool empty() const noexcept {
    return number_ == 0;
  }

  friend bool operator==(const token& x, const token& y) {
    return x.number_ == y.number_ && x.expires_us_ == y.expires_us_
           && x.names() == y.names();
  }

private:
  friend struct internal::token_access;

  struct name_pair {
    std::string work_id;
    std::string holder_id;

    friend bool operator==(const name_pair&, const name_pair&) = default;
  };

  const name_pair& names() const noexcept {
    static const name_pair none;
    return names_ ? *names_ : none;
  }

  /// Shared by all copies: a process that holds 100,000 leases has several of
  /// each token.
  std::shared_ptr<const name_pair> names_;
  std::int64_t number_ = 0;
  std::int64_t expires_us_ = 0;
};

/// For people: work ID, holder, number and expiry (RFC 3339).
std::string to_string(const token& x);

/// What a holder finds: how far its predecessor came and how it ended. Stays
/// the same for the whole lease, but for the state, which follows the holder's
/// own checkpoints.
struct prior {
  /// The last stored checkpoint. Absent when there is none, which is also what
  /// storing an empty one means.
  std::optional<std::string> state;

  /// How the predecessor ended; `none` if there was no predecessor.
  exit_mode exit = exit_mode::none;

  /// Who it was; empty if there was none.
  std::string holder_id;

  friend bool operator==(const prior&, const prior&) = default;
};

namespace internal {

/// The one door to a token's fields, for those who issue or serialize tokens.
struct token_access {
  static token make(std::string work_id, std::string holder_id,
                    std::int64_t number, std::int64_t expires_us) {
    token result;
    result.names_ = std::make_shared<token::name_pair>(
      token::name_pair{std::move(work_id), std::move(holder_id)});
    result.number_ = number;
    result.expires_us_ = expires_us;
    return result;
  }
};

} // namespace internal

} // namespace leasehold
