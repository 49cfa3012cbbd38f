// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leasehold/process/checkpoint_protocol.hpp"
#include "leasehold/process/event_loop.hpp"
#include "leasehold/process/task_thread.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace leasehold::process {

/// Connections beyond this are refused with an error line.
inline constexpr std::size_t max_connections = 64;

/// A listening socket, with permissions 0600, that is gone from the file
/// system with the object.
class socket_file {
public:
  socket_file() noexcept = default;
  socket_file(socket_file&& other) noexcept = default;
  socket_file& operator=(socket_file&& other) noexcept;
  ~socket_file();

  /// Any thread. Empty with errno set on failure.
  static socket_file listen(std::string path);

  int fd() const noexcept {
    return fd_.get();
  }

  explicit operator bool() const noexcept {
    return static_cast<bool>(fd_);
  }

private:
  descriptor fd_;
  std::string path_;
};

/// Serves one child's socket. A connection has one request under way and one
/// answer to be read, not more: it is not read from meanwhile, so what a child
/// can make us keep is bounded. Belongs to the loop's thread, as a shared
/// object, because answers may come when it is gone.
class checkpoint_server
  : public std::enable_shared_from_this<checkpoint_server> {
public:
  /// Called at most once, from any thread; later calls are ignored. If all
  /// copies go away uncalled, the child is told `unknown_outcome`.
  using answer_function = std::function<void(child_reply)>;

  /// Called in the loop's thread.
  using request_function = std::function<void(child_request, answer_function)>;

  checkpoint_server(event_loop& loop, task_thread& codec, socket_file socket,
                    std::size_t max_state_bytes, request_function on_request);

  ~checkpoint_server();

  void start();

private:
  struct connection;
  class reply_slot;

  void accept_next();
  void on_event(std::uint64_t id, std::uint32_t events);
  void read_some(connection& peer);
  void take_line(connection& peer);
  void on_parsed(std::uint64_t id, parsed_request parsed);
  void reply(std::uint64_t id, std::string line);
  void write_some(connection& peer);
  void proceed(connection& peer);
  void drop(connection& peer);
  std::size_t held_bytes() const noexcept;

  event_loop& loop_;
  task_thread& codec_;
  socket_file socket_;
  std::size_t max_state_bytes_;
  request_function on_request_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::unique_ptr<connection>> connections_;
  event_loop::watch watch_;
  event_loop::timer retry_;
};

} // namespace leasehold::process
