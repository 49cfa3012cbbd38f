// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/backend/store.hpp"
#include "leasehold/caf.hpp"
#include "leasehold/error.hpp"

#include <string>

LEASEHOLD_ERROR_CODE(leasehold::ec, "leasehold")

namespace leasehold {

/// An error for replies and exit reasons. `detail` is for people: it names the
/// thing, the value and the next step, and holds neither state nor secrets.
/// `also` is a second code that callers may match, for example lease_expired
/// beside lease_window_exhausted.
caf::error fail(ec code, std::string detail = {}, ec also = ec::none);

/// The error of a failed store outcome.
caf::error to_error(const backend::outcome& x);

/// Whether `err` carries `code`, as its first or its second code, or a code of
/// the family that `code` names.
bool matches(const caf::error& err, ec code);

/// The first code of `err`: `none` for no error, `unknown_outcome` for CAF's
/// own errors (a timeout, an actor that is gone), since the request may have
/// been carried out.
ec code_of(const caf::error& err);

/// The second code of `err`, or `none`.
ec also_of(const caf::error& err);

/// The detail of `err`; empty if it has none.
std::string detail_of(const caf::error& err);

/// "lease_held: shard-7 is held by node-b for another 18s". Never CAF's own
/// rendering, which differs between its versions.
std::string render(const caf::error& err);

} // namespace leasehold
