// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace leasehold::test {

/// Where bytes flow through a proxy.
enum class flow : std::uint8_t { to_server, to_client };

/// Stands between a client and a server on this machine, and does to their
/// connections what networks do. Runs on a thread of its own; what a member
/// says holds for all connections, those that come later included, until
/// `heal`. Thread-safe.
///
/// A *request* is what PostgreSQL's protocol calls a simple query, named by
/// its text, or everything up to a Sync, named by the prepared statement that
/// it binds (if it binds none, by "parse " and the name of the one it makes).
/// Other protocols have no requests, but pass all the same.
class tcp_proxy {
public:
  explicit tcp_proxy(std::uint16_t server_port);

  tcp_proxy(const tcp_proxy&) = delete;
  tcp_proxy& operator=(const tcp_proxy&) = delete;

  ~tcp_proxy();

  std::uint16_t port() const noexcept;

  /// Ends every fault. What was swallowed stays lost; what was cut stays cut.
  void heal();

  /// New connections are refused; those that exist go on.
  void refuse();

  /// Takes connections and bytes and passes nothing on: no answer, no reset.
  void swallow();

  /// Passes nothing on in one direction.
  void swallow(flow direction);

  void delay(flow direction, std::chrono::milliseconds time);

  /// Cuts a connection when `count` more bytes went through it this way.
  void cut_after(flow direction, std::size_t count);

  /// Cuts all connections now.
  void cut();

  /// The n-th request of this name reaches the server, which answers; the
  /// answer is dropped and the connection is cut. Only that one.
  void lose_reply(std::string name, int nth = 1);

  /// The n-th request of this name does not reach the server: the connection
  /// is cut before its last message. Only that one.
  void lose_request(std::string name, int nth = 1);

  /// What clients send is changed on its way; both have the same length.
  void replace(std::string from, std::string to);

  /// Connections taken so far.
  std::size_t accepted() const;

  /// Requests passed on to the server so far.
  std::size_t requests() const;

  /// Replies that `lose_reply`, and requests that `lose_request` ate so far.
  std::size_t lost() const;

private:
  class impl;

  std::unique_ptr<impl> impl_;
};

} // namespace leasehold::test
