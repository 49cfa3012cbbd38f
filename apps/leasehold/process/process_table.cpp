// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/process_table.hpp"

#include "leasehold/process/descriptor.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

using namespace std::chrono_literals;

namespace leasehold::process {

bool process_table::has_living_member(pid_t group, window_time since) {
  auto now = system_window_clock().now();
  if (taken_ <= since || now - taken_ > 5ms) {
    taken_ = now;
    read();
  }
  // Without /proc nobody can tell; only the kernel's own "no such group" will
  // do then.
  return !readable_ || groups_.contains(group);
}

void process_table::read() {
  groups_.clear();
  std::unique_ptr<DIR, int (*)(DIR*)> folder{::opendir("/proc"), ::closedir};
  readable_ = folder != nullptr;
  if (!folder)
    return;
  while (auto* entry = ::readdir(folder.get())) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
      continue;
    auto path = "/proc/" + std::string{entry->d_name} + "/stat";
    descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    std::array<char, 512> text;
    auto n = ::read(file.get(), text.data(), text.size() - 1);
    if (n <= 0)
      continue;
    text[static_cast<std::size_t>(n)] = '\0';
    // `pid (name) state parent group`; the name may contain anything.
    auto* rest = std::strrchr(text.data(), ')');
    char state = 0;
    pid_t group = 0;
    if (rest && std::sscanf(rest + 1, " %c %*d %d", &state, &group) == 2
        && state != 'Z' && state != 'X')
      groups_.insert(group);
  }
}

} // namespace leasehold::process
