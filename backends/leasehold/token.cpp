// SPDX-License-Identifier: Apache-2.0
#include "leasehold/token.hpp"

#include "leasehold/duration.hpp"
#include "leasehold/identifier.hpp"

namespace leasehold {

std::string to_string(const token& x) {
  if (x.empty())
    return "token(empty)";
  return "token(work_id=" + printable(x.work_id()) + ", holder_id="
         + printable(x.holder_id()) + ", number=" + std::to_string(x.number())
         + ", expires=" + rfc3339(x.expires_us()) + ")";
}

} // namespace leasehold
