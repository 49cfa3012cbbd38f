// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/process/descriptor.hpp"

#include <string>
#include <string_view>

namespace leasehold::process {

/// A private folder (0700) for the sockets and state files of our children. It
/// is removed, with all it holds, when the object goes away; folders left by
/// processes that were killed are removed by the next one.
class runtime_folder {
public:
  /// Creates `BASE/leasehold-XXXXXX`. An empty `base` takes the first of
  /// $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR and $TMPDIR that is set, absolute
  /// and short enough for a socket's path, else /tmp.
  /// @throws std::system_error when the folder cannot be made.
  explicit runtime_folder(std::string base = {});

  runtime_folder(const runtime_folder&) = delete;
  runtime_folder& operator=(const runtime_folder&) = delete;

  ~runtime_folder();

  const std::string& path() const noexcept {
    return path_;
  }

  std::string file(std::string_view name) const {
    return path_ + '/' + std::string{name};
  }

private:
  std::string path_;
  descriptor lock_;
};

/// Writes a new file with permissions 0600. Returns an errno value.
int write_private_file(const std::string& path, std::string_view bytes);

} // namespace leasehold::process
