// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/config/internal/reader.hpp"

#include <string>

namespace leasehold::config::internal {

/// Turns the values of a file into the program's structs, fills in what was
/// left out, and checks what only makes sense together. Reads the files that
/// the configuration names.
file check(const document& doc, const std::string& folder,
           const environment& env, reader& report);

/// Reads a whole file; returns the reason if it cannot, or if there are more
/// bytes than `limit`. Waits for the writer of a FIFO.
std::string read_text(const std::string& path, std::size_t limit,
                      std::string& into);

/// "shard-{00..15}" as its elements; nothing if it is not a range.
std::optional<std::vector<std::string>> expand_range(const std::string& text);

} // namespace leasehold::config::internal
