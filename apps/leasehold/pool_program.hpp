// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/backend/open.hpp"
#include "leasehold/config/options.hpp"
#include "leasehold/log.hpp"

#include <string>

namespace leasehold::app {

/// Runs the pools of a checked configuration until all of them have ended or
/// a signal says stop:
///
///  - TERM or INT: drain. No more work is taken, children are stopped, their
///    leases released; exits 0, or 69 if one could not be released.
///  - a second one: children are killed, what is confirmed is released; exits
///    1. Within a second after the first it is a repetition, and ignored:
///    `timeout` signals its child, and then the group that the child is in.
///
/// Returns the exit code. @pre The process has one thread.
int run_pools(const config::file& settings, const backend::store_source& source,
              logger& log);

} // namespace leasehold::app
