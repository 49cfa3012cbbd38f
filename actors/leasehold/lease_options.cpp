// SPDX-License-Identifier: Apache-2.0
#include "leasehold/lease_options.hpp"

#include <algorithm>
#include <utility>

namespace leasehold {

caf::error check(const lease_options& options) {
  using std::chrono::milliseconds;
  if (options.ttl < milliseconds{1} || options.ttl > max_duration)
    return fail(ec::ttl_invalid,
                "a ttl of " + format_duration(options.ttl)
                  + " is outside 1ms to 100 years",
                ec::config_invalid);
  if (auto problem = identifier_problem(options.holder_id); !problem.empty())
    return fail(ec::holder_invalid,
                "holder ID " + printable(options.holder_id) + " "
                  + std::string{problem},
                ec::config_invalid);
  if (options.store_timeout <= duration::zero())
    return fail(ec::config_invalid, "a store_timeout of "
                                      + format_duration(options.store_timeout)
                                      + " is not above zero");
  return {};
}

lease_options completed(lease_options options) {
  using std::chrono::milliseconds;
  if (options.renew <= duration::zero())
    options.renew = options.ttl / 2;
  options.renew = std::min(options.renew, max_duration);
  options.store_timeout = std::min(options.store_timeout, max_duration);
  if (!options.margin)
    options.margin = options.ttl / 100 + milliseconds{10};
  options.margin
    = std::clamp(*options.margin, duration::zero(), options.ttl / 4);
  auto spare = options.ttl - *options.margin - options.renew;
  options.warn_below = std::clamp(options.warn_below.value_or(spare / 2),
                                  duration::zero(), options.ttl);
  options.retry = normalized(options.retry);
  if (!options.observer)
    options.observer = std::make_shared<lease_observer>();
  if (!options.random)
    options.random = system_random();
  return options;
}

} // namespace leasehold
