// SPDX-License-Identifier: Apache-2.0
#include "leasehold/codec/binary.hpp"

#include <array>
#include <cstdint>

namespace leasehold::codec::internal {

namespace {

// Names the format, so that states of other codecs are told apart from
// damaged ones; the digit is that of CAF's format.
constexpr std::string_view magic = "lhb";

constexpr std::size_t header_size = magic.size() + 1 + 8;

// FNV-1a. It has to find accidents, not attacks: who can write states can
// write checksums, too.
std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t result = 0xcbf29ce484222325u;
  for (auto c : bytes) {
    result ^= static_cast<unsigned char>(c);
    result *= 0x100000001b3u;
  }
  return result;
}

std::string header(std::string_view payload) {
  std::string result{magic};
  result += static_cast<char>('0' + binary_format);
  auto sum = checksum(payload);
  for (auto shift = 56; shift >= 0; shift -= 8)
    result += static_cast<char>((sum >> shift) & 0xffu);
  return result;
}

codec_error unreadable(std::string detail) {
  return {ec::state_unreadable, std::move(detail)};
}

} // namespace

std::string seal(std::string_view payload) {
  auto result = header(payload);
  result += payload;
  return result;
}

codec_result<std::string_view> unseal(std::string_view bytes) {
  if (bytes.substr(0, magic.size()) != magic || bytes.size() < header_size)
    return unreadable("the state of " + std::to_string(bytes.size())
                      + " bytes was not written by this codec, or is cut off");
  auto payload = bytes.substr(header_size);
  auto expected = header(payload);
  if (bytes[magic.size()] != expected[magic.size()])
    return unreadable("the state was written with another version of CAF");
  if (bytes.substr(0, header_size) != expected)
    return unreadable("the state of " + std::to_string(bytes.size())
                      + " bytes is damaged");
  return payload;
}

codec_error misfit() {
  return unreadable("the state holds a value of another type, or of an older "
                    "version of the type");
}

} // namespace leasehold::codec::internal
