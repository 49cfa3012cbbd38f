// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace leasehold::internal {

/// PostgreSQL's type numbers, for array headers.
enum class pg_type : std::uint32_t {
  boolean = 16,
  bytes = 17,
  bigint = 20,
  text = 25,
};

/// A one-dimensional array in PostgreSQL's binary format. Nothing in it needs
/// escaping, and any byte passes.
class binary_array {
public:
  explicit binary_array(pg_type element);

  void add(std::string_view value);
  void add(std::int64_t value);
  void add(bool value);
  void add_null();

  /// The finished parameter; add nothing after this.
  const std::string& finish();

private:
  pg_type element_;
  std::string bytes_;
  std::uint32_t count_ = 0;
  bool has_null_ = false;
};

/// A bigint parameter in binary format.
std::string binary_bigint(std::int64_t value);

/// Reads big-endian numbers of `size` bytes, 1 to 8, with their sign.
std::int64_t read_integer(const char* data, std::size_t size);

/// A timestamptz in binary format as microseconds since the Unix epoch;
/// infinities stay far away instead of overflowing.
std::int64_t read_timestamp(const char* data);

} // namespace leasehold::internal
