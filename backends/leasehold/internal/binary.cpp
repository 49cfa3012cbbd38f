// SPDX-License-Identifier: Apache-2.0
#include "leasehold/internal/binary.hpp"

#include <limits>

namespace leasehold::internal {

namespace {

// Number of dimensions, null flag, element type, length, lower bound.
constexpr std::size_t null_flag_offset = 4;
constexpr std::size_t length_offset = 12;

// Microseconds from 1970 to 2000, where PostgreSQL's time starts.
constexpr std::int64_t postgres_epoch_us = 946'684'800'000'000;

void append(std::string& out, std::uint64_t value, std::size_t size) {
  for (auto i = size; i > 0; --i)
    out += static_cast<char>((value >> (8 * (i - 1))) & 0xFF);
}

void put(std::string& out, std::size_t offset, std::uint32_t value) {
  std::string bytes;
  append(bytes, value, 4);
  out.replace(offset, 4, bytes);
}

} // namespace

binary_array::binary_array(pg_type element) : element_(element) {
  append(bytes_, 1, 4);
  append(bytes_, 0, 4);
  append(bytes_, static_cast<std::uint32_t>(element), 4);
  append(bytes_, 0, 4);
  append(bytes_, 1, 4);
}

void binary_array::add(std::string_view value) {
  append(bytes_, value.size(), 4);
  bytes_ += value;
  ++count_;
}

void binary_array::add(std::int64_t value) {
  append(bytes_, 8, 4);
  append(bytes_, static_cast<std::uint64_t>(value), 8);
  ++count_;
}

void binary_array::add(bool value) {
  append(bytes_, 1, 4);
  bytes_ += value ? '\1' : '\0';
  ++count_;
}

void binary_array::add_null() {
  append(bytes_, 0xFFFF'FFFF, 4);
  has_null_ = true;
  ++count_;
}

const std::string& binary_array::finish() {
  if (count_ == 0) {
    // An empty array has no dimensions.
    bytes_.clear();
    append(bytes_, 0, 4);
    append(bytes_, 0, 4);
    append(bytes_, static_cast<std::uint32_t>(element_), 4);
    return bytes_;
  }
  put(bytes_, null_flag_offset, has_null_ ? 1 : 0);
  put(bytes_, length_offset, count_);
  return bytes_;
}

std::string binary_bigint(std::int64_t value) {
  std::string result;
  append(result, static_cast<std::uint64_t>(value), 8);
  return result;
}

std::int64_t read_integer(const char* data, std::size_t size) {
  std::uint64_t value = 0;
  if (size > 0 && (static_cast<unsigned char>(data[0]) & 0x80) != 0)
    value = ~std::uint64_t{0};
  for (std::size_t i = 0; i < size; ++i)
    value = (value << 8) | static_cast<unsigned char>(data[i]);
  return static_cast<std::int64_t>(value);
}

std::int64_t read_timestamp(const char* data) {
  auto value = read_integer(data, 8);
  if (value > std::numeric_limits<std::int64_t>::max() - postgres_epoch_us)
    return std::numeric_limits<std::int64_t>::max();
  return value + postgres_epoch_us;
}

} // namespace leasehold::internal
