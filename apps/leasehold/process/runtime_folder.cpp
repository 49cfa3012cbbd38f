// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/runtime_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace leasehold::process {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view name_prefix = "leasehold-";
constexpr std::string_view lock_name = "/lock";

// `BASE/leasehold-XXXXXX/18446744073709551615.sock` and a NUL.
constexpr auto longest_base = sizeof(sockaddr_un::sun_path) - 1
                              - sizeof("/leasehold-XXXXXX") + 1
                              - sizeof("/18446744073709551615.sock") + 1;

std::string default_base() {
  for (auto* name : {"RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "TMPDIR"}) {
    auto* value = std::getenv(name);
    if (!value || value[0] != '/')
      continue;
    // systemd separates several folders by colons.
    std::string path{value};
    path.resize(std::min(path.size(), path.find(':')));
    if (path.size() <= longest_base && ::access(path.c_str(), W_OK | X_OK) == 0)
      return path;
  }
  return "/tmp";
}

descriptor lock_folder(const std::string& folder, int flags) {
  auto fd = above_stdio(
    descriptor{::open((folder + std::string{lock_name}).c_str(),
                      O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600)});
  if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
    fd.reset();
  return fd;
}

// The lock of a living owner cannot be taken, and only folders of our own user
// are touched: /tmp belongs to everybody.
void remove_stale(const std::string& base) {
  std::error_code ignored;
  for (fs::directory_iterator at{base, ignored}, end; at != end;
       at.increment(ignored)) {
    auto path = at->path().string();

    struct stat info {};

    if (at->path().filename().string().starts_with(name_prefix)
        && ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)
        && info.st_uid == ::geteuid() && lock_folder(path, 0))
      fs::remove_all(path, ignored);
  }
}

} // namespace

runtime_folder::runtime_folder(std::string base) {
  if (base.empty())
    base = default_base();
  if (base.size() > longest_base)
    throw std::system_error(ENAMETOOLONG, std::generic_category(),
                            "runtime folder: a socket's path in " + base);
  remove_stale(base);
  // Another process may take a folder without a lock holder for a stale one
  // just before we lock it. Then it is gone, and a new one is as good.
  for (auto attempts = 10; attempts > 0 && !lock_; --attempts) {
    path_ = base + '/' + std::string{name_prefix} + "XXXXXX";
    if (!::mkdtemp(path_.data()))
      break;
    lock_ = lock_folder(path_, O_CREAT | O_EXCL);
  }
  if (!lock_)
    throw std::system_error(errno, std::generic_category(),
                            "runtime folder in " + base);
}

runtime_folder::~runtime_folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

int write_private_file(const std::string& path, std::string_view bytes) {
  descriptor fd{
    ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!fd)
    return errno;
  while (!bytes.empty()) {
    auto n = ::write(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0) {
      auto code = errno;
      ::unlink(path.c_str());
      return code;
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

} // namespace leasehold::process
