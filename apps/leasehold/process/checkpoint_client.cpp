// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/checkpoint_client.hpp"

#include "leasehold/process/descriptor.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

using namespace std::chrono_literals;

namespace leasehold::process {

namespace {

using steady = std::chrono::steady_clock;

// Far above any state that a store takes; only a stranger on the socket sends
// more.
constexpr std::size_t max_reply_bytes = 1024u * 1024 * 1024;

constexpr int exit_usage = 64;

checkpoint_result failure(ec code, int exit_code, std::string message) {
  checkpoint_result result;
  result.exit_code = exit_code;
  result.error = to_string(code);
  result.message = std::move(message);
  return result;
}

checkpoint_result failure(ec code, std::string message) {
  return failure(code, checkpoint_exit_code(code), std::move(message));
}

// Why nobody could be asked.
checkpoint_result no_connection(const std::string& path, int error) {
  auto reason = std::strerror(error);
  switch (error) {
    // The socket lives as long as its run, or its owner was killed.
    case ENOENT:
    case ENOTDIR:
    case ECONNREFUSED:
      return failure(ec::lease_expired,
                     fmt::format("this run is over: nobody listens on "
                                 "LEASEHOLD_SOCKET '{}' any more ({}); stop",
                                 path, reason));
    case ENAMETOOLONG:
      return failure(ec::invalid_argument, exit_usage,
                     fmt::format("LEASEHOLD_SOCKET '{}' is no socket of "
                                 "leasehold: {}",
                                 path, reason));
    case EACCES:
    case EPERM:
      return failure(ec::store_failed,
                     fmt::format("LEASEHOLD_SOCKET '{}': {}; only the user "
                                 "that runs the pool may use it",
                                 path, reason));
    default:
      return failure(ec::unavailable,
                     fmt::format("nobody answers on LEASEHOLD_SOCKET '{}': {}",
                                 path, reason));
  }
}

// False with errno set; ETIMEDOUT when the time is up.
bool wait_for(int fd, short events, steady::time_point until) {
  for (;;) {
    auto left
      = std::chrono::ceil<std::chrono::milliseconds>(until - steady::now());
    pollfd ready{fd, events, 0};
    auto n
      = left > 0ms ? ::poll(
          &ready, 1, static_cast<int>(std::min<long>(left.count(), 1'000'000)))
                   : 0;
    if (n > 0)
      return true;
    if (n < 0 && errno != EINTR)
      return false;
    if (left <= 0ms) {
      errno = ETIMEDOUT;
      return false;
    }
  }
}

descriptor connect_to(const std::string& path, steady::time_point until) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return {};
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  descriptor fd{
    ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  while (fd
         && ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                      sizeof(address))
              != 0) {
    // EAGAIN: the queue is full. Nothing tells when that changes.
    if (errno != EAGAIN && errno != EINTR)
      return {};
    if (steady::now() >= until) {
      errno = ETIMEDOUT;
      return {};
    }
    ::poll(nullptr, 0, 5);
  }
  return fd;
}

bool send_all(int fd, std::string_view bytes, steady::time_point until) {
  while (!bytes.empty()) {
    auto n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(n));
    else if (errno == EAGAIN ? !wait_for(fd, POLLOUT, until) : errno != EINTR)
      return false;
  }
  return true;
}

// False with errno set; 0 when the connection ended before the line did.
bool receive_line(int fd, std::string& line, steady::time_point until) {
  std::array<char, 64 * 1024> block;
  while (line.size() <= max_reply_bytes) {
    auto n = ::recv(fd, block.data(), block.size(), 0);
    if (n > 0) {
      std::string_view bytes{block.data(), static_cast<std::size_t>(n)};
      auto end = bytes.find('\n');
      line.append(bytes.substr(0, end));
      if (end != std::string_view::npos)
        return true;
    } else if (n == 0) {
      errno = 0;
      return false;
    } else if (errno == EAGAIN ? !wait_for(fd, POLLIN, until)
                               : errno != EINTR) {
      return false;
    }
  }
  errno = EMSGSIZE;
  return false;
}

} // namespace

read_result read_state(int fd, std::size_t limit, std::string& into) {
  std::array<char, 64 * 1024> block;
  while (into.size() <= limit) {
    auto n = ::read(fd, block.data(), block.size());
    if (n == 0)
      return read_result::complete;
    if (n > 0) {
      into.append(block.data(), static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLIN, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return read_result::failed;
    }
  }
  return read_result::over_limit;
}

checkpoint_client::checkpoint_client(std::string socket_path, duration timeout)
  : socket_path_(std::move(socket_path)), timeout_(timeout) {
  // nop
}

checkpoint_client checkpoint_client::from_environment(duration timeout) {
  auto* path = std::getenv("LEASEHOLD_SOCKET");
  return checkpoint_client{path ? path : "", timeout};
}

checkpoint_result checkpoint_client::put(std::string state) const {
  return ask({checkpoint_op::put, std::move(state)});
}

checkpoint_result checkpoint_client::get() const {
  return ask({checkpoint_op::get, std::nullopt});
}

checkpoint_result checkpoint_client::window() const {
  return ask({checkpoint_op::window, std::nullopt});
}

checkpoint_result checkpoint_client::ask(const child_request& request) const {
  if (socket_path_.empty())
    return failure(ec::invalid_argument, exit_usage,
                   "LEASEHOLD_SOCKET is not set; run this inside a command "
                   "that `leasehold pool` has started");
  auto until = steady::now() + timeout_;
  auto fd = connect_to(socket_path_, until);
  if (!fd)
    return no_connection(socket_path_, errno);
  std::string line;
  // Refused early, a request may break off while its answer is there already.
  auto sent = send_all(fd.get(), format_request(request), until);
  auto code = errno;
  if ((sent || code == EPIPE || code == ECONNRESET)
      && receive_line(fd.get(), line, until)) {
    if (auto result = parse_reply(line))
      return std::move(*result);
    return failure(ec::unknown_outcome, "the answer is not understood");
  }
  if (sent)
    code = errno;
  auto outcome
    = request.op == checkpoint_op::put ? ec::unknown_outcome : ec::unavailable;
  if (code == ETIMEDOUT)
    return failure(outcome, fmt::format("the runner has not answered within "
                                        "{}; --timeout waits longer",
                                        format_duration(timeout_)));
  return failure(outcome, code == 0
                            ? "the runner closed the connection"
                            : fmt::format("no answer from the runner: {}",
                                          std::strerror(code)));
}

} // namespace leasehold::process
