// SPDX-License-Identifier: Apache-2.0
// A fault that does not happen proves nothing.
#include "support/tcp_proxy.hpp"

#include <arpa/inet.h>
#include <boost/test/unit_test.hpp>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>

using namespace leasehold::test;
using namespace std::chrono_literals;

namespace {

/// One socket, closed at its end.
struct peer {
  explicit peer(int descriptor) : fd(descriptor) {
    // nop
  }

  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;

  ~peer() {
    ::close(fd);
  }

  void write(std::string_view text) const {
    BOOST_TEST_REQUIRE(::send(fd, text.data(), text.size(), MSG_NOSIGNAL)
                       == static_cast<ssize_t>(text.size()));
  }

  bool is_readable(std::chrono::milliseconds limit) const {
    pollfd x{fd, POLLIN, 0};
    return ::poll(&x, 1, static_cast<int>(limit.count())) > 0;
  }

  /// What arrives next; "end" if the other side closed.
  std::string read(std::chrono::milliseconds limit = 5s) const {
    if (!is_readable(limit))
      return "nothing";
    std::array<char, 100> buffer;
    auto n = ::recv(fd, buffer.data(), buffer.size(), 0);
    return n <= 0 ? "end"
                  : std::string{buffer.data(), static_cast<std::size_t>(n)};
  }

  int fd;
};

sockaddr_in address_of(std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  result.sin_port = htons(port);
  return result;
}

int listening_socket() {
  auto fd = ::socket(AF_INET, SOCK_STREAM, 0);
  auto address = address_of(0);
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  ::listen(fd, 5);
  return fd;
}

struct fixture {
  std::uint16_t server_port() const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    ::getsockname(listener.fd, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }

  /// A socket, connected if the proxy took it.
  static int dial(std::uint16_t port, bool& connected) {
    auto fd = ::socket(AF_INET, SOCK_STREAM, 0);
    auto address = address_of(port);
    connected
      = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address)
        == 0;
    return fd;
  }

  int dial() {
    auto connected = false;
    auto fd = dial(proxy.port(), connected);
    BOOST_TEST_REQUIRE(connected);
    return fd;
  }

  int take() {
    BOOST_TEST_REQUIRE(listener.is_readable(5s));
    return ::accept(listener.fd, nullptr, nullptr);
  }

  /// A message of PostgreSQL's protocol.
  static std::string message(char type, std::string body) {
    auto size = body.size() + 4;
    std::string result(1, type);
    for (auto shift : {24, 16, 8, 0})
      result += static_cast<char>(size >> shift & 0xFF);
    return result + body;
  }

  static std::string start_up() {
    return message('x', std::string{"\0\3\0\0user\0me\0\0", 14}).substr(1);
  }

  static std::string request(const std::string& name) {
    using namespace std::string_literals;
    return message('B', "\0"s + name + "\0rest"s) + message('E', "\0\0\0\0\0"s)
           + message('S', "");
  }

  peer listener{listening_socket()};
  tcp_proxy proxy{server_port()};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(tcp_proxy_suite, fixture)

BOOST_AUTO_TEST_CASE(passes_bytes_both_ways_and_tells_the_end) {
  peer client{dial()};
  peer server{take()};
  client.write("ping");
  BOOST_TEST(server.read() == "ping");
  server.write("pong");
  BOOST_TEST(client.read() == "pong");
  ::shutdown(client.fd, SHUT_WR);
  BOOST_TEST(server.read() == "end");
  server.write("last");
  ::shutdown(server.fd, SHUT_WR);
  BOOST_TEST(client.read() == "last");
  BOOST_TEST(client.read() == "end");
  BOOST_TEST(proxy.accepted() == 1u);
}

BOOST_AUTO_TEST_CASE(swallows_without_a_reset_until_it_heals) {
  peer client{dial()};
  peer server{take()};
  proxy.swallow();
  client.write("ping");
  server.write("pong");
  BOOST_TEST(server.read(50ms) == "nothing");
  BOOST_TEST(client.read(0ms) == "nothing");
  peer late{dial()};
  late.write("hello");
  peer late_server{take()};
  BOOST_TEST(late_server.read(50ms) == "nothing");
  proxy.heal();
  client.write("again");
  BOOST_TEST(server.read() == "again");
}

BOOST_AUTO_TEST_CASE(swallows_in_one_direction) {
  peer client{dial()};
  peer server{take()};
  proxy.swallow(flow::to_client);
  client.write("ping");
  BOOST_TEST(server.read() == "ping");
  server.write("pong");
  BOOST_TEST(client.read(50ms) == "nothing");
}

BOOST_AUTO_TEST_CASE(delays_in_order) {
  peer client{dial()};
  peer server{take()};
  proxy.delay(flow::to_server, 100ms);
  auto start = std::chrono::steady_clock::now();
  client.write("a");
  BOOST_TEST(server.read() == "a");
  BOOST_TEST((std::chrono::steady_clock::now() - start >= 95ms));
  server.write("b");
  BOOST_TEST(client.read() == "b");
}

BOOST_AUTO_TEST_CASE(cuts_after_the_byte_it_was_told) {
  peer client{dial()};
  peer server{take()};
  proxy.cut_after(flow::to_server, 3);
  client.write("ab");
  client.write("cdef");
  std::string got;
  while (got.size() < 3)
    got += server.read();
  BOOST_TEST(got == "abc");
  BOOST_TEST(server.read() == "end");
  BOOST_TEST(client.read() == "end");
}

BOOST_AUTO_TEST_CASE(refuses_and_takes_again_on_the_same_port) {
  proxy.refuse();
  auto connected = true;
  peer client{dial(proxy.port(), connected)};
  BOOST_TEST(!connected);
  proxy.heal();
  peer other{dial(proxy.port(), connected)};
  BOOST_TEST(connected);
}

BOOST_AUTO_TEST_CASE(loses_the_reply_to_the_nth_request_of_a_name) {
  peer client{dial()};
  peer server{take()};
  proxy.lose_reply("lh_renew", 2);
  client.write(start_up());
  BOOST_TEST(server.read() == start_up());
  for (auto name : {"lh_renew", "lh_other"}) {
    client.write(request(name));
    BOOST_TEST(server.read() == request(name));
    server.write("answer");
    BOOST_TEST(client.read() == "answer");
  }
  client.write(request("lh_renew"));
  BOOST_TEST(server.read() == request("lh_renew"));
  BOOST_TEST(proxy.lost() == 0u);
  server.write("answer");
  BOOST_TEST(client.read() == "end");
  BOOST_TEST(server.read() == "end");
  BOOST_TEST(proxy.lost() == 1u);
  BOOST_TEST(proxy.requests() == 3u);
}

BOOST_AUTO_TEST_CASE(loses_the_last_byte_of_a_request) {
  peer client{dial()};
  peer server{take()};
  proxy.lose_request("commit");
  auto query = message('Q', std::string{"commit\0", 7});
  client.write(start_up() + query);
  auto all = start_up() + query;
  all.pop_back();
  std::string got;
  while (got.size() < all.size())
    got += server.read();
  BOOST_TEST((got == all));
  BOOST_TEST(server.read() == "end");
  BOOST_TEST(client.read() == "end");
}

BOOST_AUTO_TEST_CASE(replaces_what_clients_send) {
  peer client{dial()};
  peer server{take()};
  proxy.replace("good", "evil");
  client.write("all good");
  BOOST_TEST(server.read() == "all evil");
}

BOOST_AUTO_TEST_SUITE_END()
