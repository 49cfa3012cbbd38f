// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace leasehold::test {

/// An empty folder that is removed with all that is in it.
class temporary_folder {
public:
  temporary_folder()
    : path_((std::filesystem::temp_directory_path() / "leasehold-test.XXXXXX")
              .string()) {
    if (::mkdtemp(path_.data()) == nullptr)
      throw std::runtime_error{"cannot make a temporary folder"};
  }

  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const noexcept {
    return path_;
  }

private:
  std::string path_;
};

} // namespace leasehold::test
