// SPDX-License-Identifier: Apache-2.0
#include <leasehold/codec/json.hpp>

#include <cstdio>
#include <vector>

using namespace leasehold;

int main() {
  std::vector<int> some{1, 2, 3};
  auto bytes = encode(some, codec::json{});
  std::puts(bytes->c_str());
  return *decode<std::vector<int>>(*bytes, codec::json{}) == some ? 0 : 1;
}
