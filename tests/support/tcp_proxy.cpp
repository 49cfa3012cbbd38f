// SPDX-License-Identifier: Apache-2.0
#include "support/tcp_proxy.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace leasehold::test {

namespace {

using std::chrono::steady_clock;

// Beyond this a pipe reads no more, so that the sender feels a server that
// does not read.
constexpr std::size_t max_queued = 256u * 1024;

class descriptor {
public:
  explicit descriptor(int fd = -1) : fd_(fd) {
    // nop
  }

  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {
    // nop
  }

  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  ~descriptor() {
    if (fd_ < 0)
      return;
    // A poll under way keeps a socket that is only closed alive.
    ::shutdown(fd_, SHUT_RDWR);
    ::close(fd_);
  }

  int get() const noexcept {
    return fd_;
  }

private:
  int fd_;
};

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  result.sin_port = htons(port);
  return result;
}

descriptor make_socket() {
  descriptor result{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int on = 1;
  ::setsockopt(result.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return result;
}

void no_blocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

descriptor listen_on(std::uint16_t port) {
  auto result = make_socket();
  int on = 1;
  ::setsockopt(result.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  auto address = loopback(port);
  if (::bind(result.get(), reinterpret_cast<sockaddr*>(&address),
             sizeof address)
        != 0
      || ::listen(result.get(), 64) != 0)
    throw std::runtime_error{"tcp_proxy: cannot listen"};
  no_blocking(result.get());
  return result;
}

/// Finds where the requests of a client end.
class request_reader {
public:
  struct end {
    /// Bytes up to the end of the request.
    std::size_t size = 0;
    std::string name;
  };

  /// The first request that ends in `bytes`, which go on where the last call
  /// stopped: behind the end that it found, or else behind all it was given.
  std::optional<end> next(std::string_view bytes) {
    for (auto c : bytes) {
      ++taken_;
      message_ += c;
      auto head = started_ ? 5u : 4u;
      if (message_.size() < head)
        continue;
      if (message_.size() < length(head) + (started_ ? 1 : 0))
        continue;
      auto message = std::exchange(message_, {});
      if (!started_) {
        // Requests for encryption come before the start and look like it.
        started_ = code(message) >> 16 == 3;
        continue;
      }
      auto body = message.substr(5);
      switch (message[0]) {
        case 'Q':
          return done(body.substr(0, body.find('\0')));
        case 'P':
          if (name_.empty())
            name_ = "parse " + body.substr(0, body.find('\0'));
          break;
        case 'B':
          body.erase(0, body.find('\0') + 1);
          name_ = body.substr(0, body.find('\0'));
          break;
        case 'S':
          return done(std::exchange(name_, {}));
        default:
          break;
      }
    }
    taken_ = 0;
    return std::nullopt;
  }

private:
  std::uint32_t integer(std::string_view bytes) const {
    std::uint32_t result = 0;
    for (auto c : bytes.substr(0, 4))
      result = result << 8 | static_cast<unsigned char>(c);
    return result;
  }

  std::size_t length(std::size_t head) const {
    return integer(std::string_view{message_}.substr(head - 4));
  }

  std::uint32_t code(std::string_view message) const {
    return message.size() < 8 ? 0 : integer(message.substr(4));
  }

  end done(std::string name) {
    return {std::exchange(taken_, 0), std::move(name)};
  }

  bool started_ = false;
  std::size_t taken_ = 0;
  std::string message_;
  std::string name_;
};

/// One direction of a connection.
struct pipe_end {
  struct piece {
    steady_clock::time_point due;
    std::string bytes;
  };

  std::deque<piece> queue;
  std::size_t queued = 0;
  bool at_end = false;
  bool end_sent = false;
};

struct connection {
  descriptor client;
  descriptor server;
  pipe_end to_server;
  pipe_end to_client;
  request_reader reader;

  /// The next byte from the server is the answer that gets lost.
  bool lose_next = false;

  /// The client is cut as soon as what is queued for the server is sent.
  bool cut = false;

  std::array<std::optional<std::size_t>, 2> bytes_left;
};

struct direction_faults {
  bool swallow = false;
  std::chrono::milliseconds delay{0};
  std::optional<std::size_t> cut_after;
};

struct request_fault {
  std::string name;
  int left = 0;
  bool is_reply = false;
};

std::size_t index(flow direction) {
  return static_cast<std::size_t>(direction);
}

} // namespace

class tcp_proxy::impl {
public:
  explicit impl(std::uint16_t server_port)
    : server_port_(server_port), listener_(listen_on(0)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    ::getsockname(listener_->get(), reinterpret_cast<sockaddr*>(&address),
                  &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread{[this] { run(); }};
  }

  ~impl() {
    change([this] { stopped_ = true; });
    thread_.join();
  }

  /// Changes what is shared with the thread, and has it look.
  template <class Change>
  void change(Change what) {
    {
      std::lock_guard guard{mtx_};
      what();
    }
    std::uint64_t one = 1;
    [[maybe_unused]] auto n = ::write(wake_.get(), &one, sizeof one);
  }

  void heal() {
    change([this] {
      faults_ = {};
      requests_.clear();
      replace_.clear();
      silent_ = false;
      for (auto& conn : connections_)
        conn.bytes_left = {};
      if (!listener_)
        listener_ = listen_on(port_);
    });
  }

  void run() {
    for (;;) {
      std::vector<pollfd> fds;
      auto wait = -1;
      {
        std::lock_guard guard{mtx_};
        if (stopped_)
          return;
        collect(fds, wait);
      }
      ::poll(fds.data(), fds.size(), wait);
      std::lock_guard guard{mtx_};
      std::uint64_t ignored = 0;
      [[maybe_unused]] auto n = ::read(wake_.get(), &ignored, sizeof ignored);
      accept_all();
      for (auto& conn : connections_)
        serve(conn);
      connections_.remove_if([](auto& conn) {
        return conn.client.get() < 0
               && (conn.server.get() < 0 || conn.to_client.at_end);
      });
    }
  }

  std::mutex mtx_;
  bool silent_ = false;
  bool stopped_ = false;
  std::array<direction_faults, 2> faults_;
  std::vector<request_fault> requests_;
  std::vector<std::pair<std::string, std::string>> replace_;
  std::list<connection> connections_;
  std::uint16_t server_port_;
  std::optional<descriptor> listener_;
  descriptor wake_;
  std::uint16_t port_ = 0;
  std::atomic<std::size_t> accepted_ = 0;
  std::atomic<std::size_t> passed_ = 0;
  std::atomic<std::size_t> lost_ = 0;

private:
  static void want(std::vector<pollfd>& fds, int fd, short events) {
    if (fd >= 0 && events != 0)
      fds.push_back({fd, events, 0});
  }

  /// What to wait for, and for how many milliseconds at most.
  void collect(std::vector<pollfd>& fds, int& wait) {
    want(fds, wake_.get(), POLLIN);
    if (listener_)
      want(fds, listener_->get(), POLLIN);
    auto now = steady_clock::now();
    auto events_for = [&](pipe_end& in, pipe_end& out) {
      auto events = 0;
      if (!in.at_end && in.queued < max_queued)
        events |= POLLIN;
      if (!out.queue.empty()) {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(
          out.queue.front().due - now);
        if (left.count() <= 0)
          events |= POLLOUT;
        else if (wait < 0 || left.count() < wait)
          wait = static_cast<int>(left.count());
      }
      return static_cast<short>(events);
    };
    for (auto& conn : connections_) {
      want(fds, conn.client.get(), events_for(conn.to_server, conn.to_client));
      want(fds, conn.server.get(), events_for(conn.to_client, conn.to_server));
    }
  }

  bool is_silent(flow direction) const {
    return silent_ || faults_[index(direction)].swallow;
  }

  void accept_all() {
    while (listener_) {
      descriptor client{
        ::accept4(listener_->get(), nullptr, nullptr, SOCK_CLOEXEC)};
      if (client.get() < 0)
        return;
      ++accepted_;
      auto& conn = connections_.emplace_back();
      int on = 1;
      ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      no_blocking(client.get());
      conn.client = std::move(client);
      conn.server = make_socket();
      auto address = loopback(server_port_);
      if (::connect(conn.server.get(), reinterpret_cast<sockaddr*>(&address),
                    sizeof address)
          != 0) {
        connections_.pop_back();
        continue;
      }
      no_blocking(conn.server.get());
    }
  }

  static void drop_client(connection& conn) {
    conn.client = descriptor{};
    conn.to_client.queue.clear();
    conn.to_server.at_end = true;
  }

  void serve(connection& conn) {
    if (conn.client.get() >= 0)
      receive(conn, flow::to_server);
    if (conn.server.get() >= 0)
      receive(conn, flow::to_client);
    send(conn.to_server, conn.server);
    send(conn.to_client, conn.client);
    if (conn.cut && conn.to_server.queue.empty())
      drop_client(conn);
    // The end of one side is told to the other when all else has been sent.
    if (!is_silent(flow::to_server))
      finish(conn.to_server, conn.server);
    if (!is_silent(flow::to_client))
      finish(conn.to_client, conn.client);
    if (conn.to_client.end_sent)
      conn.client = descriptor{};
  }

  static void finish(pipe_end& way, descriptor& to) {
    if (way.at_end && way.queue.empty() && !way.end_sent && to.get() >= 0) {
      ::shutdown(to.get(), SHUT_WR);
      way.end_sent = true;
    }
  }

  void receive(connection& conn, flow direction) {
    auto& way = direction == flow::to_server ? conn.to_server : conn.to_client;
    auto& from = direction == flow::to_server ? conn.client : conn.server;
    std::array<char, 16 * 1024> buffer;
    while (!way.at_end && way.queued < max_queued && from.get() >= 0) {
      auto n = ::recv(from.get(), buffer.data(), buffer.size(), 0);
      if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
      if (n <= 0) {
        way.at_end = true;
        return;
      }
      take(conn, direction, {buffer.data(), static_cast<std::size_t>(n)});
    }
  }

  void take(connection& conn, flow direction, std::string bytes) {
    auto& faults = faults_[index(direction)];
    if (direction == flow::to_client && conn.lose_next) {
      ++lost_;
      conn.lose_next = false;
      drop_client(conn);
      return;
    }
    if (conn.cut)
      return;
    if (is_silent(direction))
      return;
    if (faults.cut_after && !conn.bytes_left[index(direction)])
      conn.bytes_left[index(direction)] = faults.cut_after;
    if (direction == flow::to_server)
      bytes = requests_in(conn, std::move(bytes));
    if (auto& left = conn.bytes_left[index(direction)]) {
      if (bytes.size() >= *left) {
        bytes.resize(*left);
        conn.cut = true;
      }
      *left -= bytes.size();
    }
    auto& way = direction == flow::to_server ? conn.to_server : conn.to_client;
    way.queued += bytes.size();
    way.queue.push_back({steady_clock::now() + faults.delay, std::move(bytes)});
    if (conn.cut && direction == flow::to_client) {
      send(way, conn.client);
      drop_client(conn);
    }
  }

  /// What of it is passed on.
  std::string requests_in(connection& conn, std::string bytes) {
    for (auto& [from, to] : replace_)
      for (auto pos = bytes.find(from); pos != std::string::npos;
           pos = bytes.find(from, pos + to.size()))
        bytes.replace(pos, from.size(), to);
    std::size_t begin = 0;
    while (auto found
           = conn.reader.next(std::string_view{bytes}.substr(begin))) {
      begin += found->size;
      auto pos = std::find_if(requests_.begin(), requests_.end(),
                              [&](auto& x) { return x.name == found->name; });
      if (pos == requests_.end() || --pos->left > 0) {
        ++passed_;
        continue;
      }
      auto is_reply = pos->is_reply;
      requests_.erase(pos);
      if (is_reply) {
        ++passed_;
        conn.lose_next = true;
      } else {
        // A Sync has five bytes; a simple query loses its last byte alone.
        ++lost_;
        bytes.resize(begin - 1);
        conn.cut = true;
        return bytes;
      }
    }
    return bytes;
  }

  static void send(pipe_end& way, descriptor& to) {
    while (!way.queue.empty() && to.get() >= 0
           && way.queue.front().due <= steady_clock::now()) {
      auto& bytes = way.queue.front().bytes;
      auto n = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
      if (n < 0) {
        way.queue.clear();
        way.queued = 0;
        return;
      }
      way.queued -= static_cast<std::size_t>(n);
      bytes.erase(0, static_cast<std::size_t>(n));
      if (bytes.empty())
        way.queue.pop_front();
    }
  }

  std::thread thread_;
};

tcp_proxy::tcp_proxy(std::uint16_t server_port)
  : impl_(std::make_unique<impl>(server_port)) {
  // nop
}

tcp_proxy::~tcp_proxy() = default;

std::uint16_t tcp_proxy::port() const noexcept {
  return impl_->port_;
}

void tcp_proxy::heal() {
  impl_->heal();
}

void tcp_proxy::refuse() {
  impl_->change([this] { impl_->listener_.reset(); });
}

void tcp_proxy::swallow() {
  impl_->change([this] { impl_->silent_ = true; });
}

void tcp_proxy::swallow(flow direction) {
  impl_->change([&] { impl_->faults_[index(direction)].swallow = true; });
}

void tcp_proxy::delay(flow direction, std::chrono::milliseconds time) {
  impl_->change([&] { impl_->faults_[index(direction)].delay = time; });
}

void tcp_proxy::cut_after(flow direction, std::size_t count) {
  impl_->change([&] { impl_->faults_[index(direction)].cut_after = count; });
}

void tcp_proxy::cut() {
  impl_->change([this] { impl_->connections_.clear(); });
}

void tcp_proxy::lose_reply(std::string name, int nth) {
  impl_->change([&] {
    impl_->requests_.push_back({std::move(name), nth, true});
  });
}

void tcp_proxy::lose_request(std::string name, int nth) {
  impl_->change([&] {
    impl_->requests_.push_back({std::move(name), nth, false});
  });
}

void tcp_proxy::replace(std::string from, std::string to) {
  if (from.empty() || from.size() != to.size())
    throw std::invalid_argument{"tcp_proxy: lengths differ"};
  impl_->change(
    [&] { impl_->replace_.emplace_back(std::move(from), std::move(to)); });
}

std::size_t tcp_proxy::accepted() const {
  return impl_->accepted_;
}

std::size_t tcp_proxy::requests() const {
  return impl_->passed_;
}

std::size_t tcp_proxy::lost() const {
  return impl_->lost_;
}

} // namespace leasehold::test
