// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/checkpoint_server.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

using namespace std::chrono_literals;

namespace leasehold::process {

namespace {

// What connections may hold together, in longest lines. The 64 of them could
// otherwise hold 64 full states at once.
constexpr std::size_t budget_lines = 4;

constexpr auto accept_retry = 100ms;

std::string too_long(std::size_t max_state_bytes) {
  return format_error(
    to_string(ec::state_too_large), 65,
    fmt::format("the state is larger than {} bytes, which is the limit; store "
                "less, or a reference to it",
                max_state_bytes));
}

std::string too_much() {
  return format_error("unavailable", 69,
                      "too much data of this child is waiting; try again");
}

} // namespace

// -- socket_file --------------------------------------------------------------

socket_file& socket_file::operator=(socket_file&& other) noexcept {
  std::swap(fd_, other.fd_);
  path_.swap(other.path_);
  return *this;
}

socket_file::~socket_file() {
  if (fd_)
    ::unlink(path_.c_str());
}

socket_file socket_file::listen(std::string path) {
  socket_file result;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return result;
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  auto fd = above_stdio(descriptor{
    ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)});
  if (!fd
      || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address),
                sizeof(address))
           != 0)
    return result;
  result.path_ = std::move(path);
  result.fd_ = std::move(fd);
  if (::chmod(result.path_.c_str(), 0600) != 0
      || ::listen(result.fd_.get(), static_cast<int>(max_connections)) != 0)
    return {};
  return result;
}

// -- connections --------------------------------------------------------------

struct checkpoint_server::connection {
  std::uint64_t id = 0;
  descriptor fd;
  event_loop::watch watch;
  std::string in;
  std::size_t searched = 0; // no newline before this offset of `in`
  std::string out;
  std::size_t written = 0;
  std::size_t in_work = 0; // size of the line that waits for its answer
  std::string refusal;     // answer to the line that is being skipped
  bool waiting = false;
  bool skipping = false;
  bool ended = false;

  std::size_t held() const noexcept {
    return in.size() + out.size() + in_work;
  }
};

class checkpoint_server::reply_slot {
public:
  reply_slot(std::weak_ptr<checkpoint_server> server,
             std::shared_ptr<mailbox> inbox, std::uint64_t id, checkpoint_op op)
    : server_(std::move(server)), inbox_(std::move(inbox)), id_(id), op_(op) {
    // nop
  }

  reply_slot(const reply_slot&) = delete;
  reply_slot& operator=(const reply_slot&) = delete;

  ~reply_slot() {
    child_reply nobody;
    nobody.code = ec::unknown_outcome;
    answer(nobody);
  }

  void answer(const child_reply& what) {
    if (answered_.exchange(true))
      return;
    // The text is made in the caller's thread; the loop only moves it.
    inbox_->post(
      [server = server_, id = id_, line = format_reply(op_, what)]() mutable {
        if (auto self = server.lock())
          self->reply(id, std::move(line));
      });
  }

private:
  std::weak_ptr<checkpoint_server> server_;
  std::shared_ptr<mailbox> inbox_;
  std::uint64_t id_;
  checkpoint_op op_;
  std::atomic<bool> answered_{false};
};

// -- checkpoint_server --------------------------------------------------------

checkpoint_server::checkpoint_server(event_loop& loop, task_thread& codec,
                                     socket_file socket,
                                     std::size_t max_state_bytes,
                                     request_function on_request)
  : loop_(loop), codec_(codec), socket_(std::move(socket)),
    max_state_bytes_(max_state_bytes), on_request_(std::move(on_request)) {
  // nop
}

checkpoint_server::~checkpoint_server() = default;

void checkpoint_server::start() {
  watch_ = loop_.add(socket_.fd(), EPOLLIN,
                     [this](std::uint32_t) { accept_next(); });
}

void checkpoint_server::accept_next() {
  auto fd = above_stdio(descriptor{
    ::accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)});
  if (!fd) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
      // The peer stays in the queue; asking again at once would spin.
      watch_.reset();
      loop_.arm(retry_, loop_.now() + accept_retry, [this] { start(); });
    }
    return;
  }
  if (connections_.size() >= max_connections) {
    auto line = format_error("unavailable", 69, "too many connections");
    ::send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return;
  }
  auto id = ++last_id_;
  auto peer = std::make_unique<connection>();
  peer->id = id;
  peer->fd = std::move(fd);
  peer->watch
    = loop_.add(peer->fd.get(), EPOLLIN, [this, id](std::uint32_t events) {
        // Keeps this object for the time that its handler runs.
        auto self = shared_from_this();
        on_event(id, events);
      });
  if (peer->watch)
    connections_.emplace(id, std::move(peer));
}

void checkpoint_server::on_event(std::uint64_t id, std::uint32_t events) {
  auto at = connections_.find(id);
  if (at == connections_.end())
    return;
  auto& peer = *at->second;
  if (!peer.out.empty())
    write_some(peer);
  else if (!peer.waiting)
    read_some(peer);
  else if ((events & (EPOLLHUP | EPOLLERR)) != 0)
    drop(peer); // Nobody is left to read the answer.
}

void checkpoint_server::read_some(connection& peer) {
  std::array<char, 64 * 1024> block;
  auto n = ::recv(peer.fd.get(), block.data(), block.size(), 0);
  if (n < 0) {
    if (errno != EAGAIN && errno != EINTR)
      drop(peer);
    return;
  }
  if (n == 0) {
    peer.ended = true;
  } else {
    std::string_view bytes{block.data(), static_cast<std::size_t>(n)};
    if (peer.skipping)
      bytes.remove_prefix(std::min(bytes.find('\n'), bytes.size()));
    peer.in.append(bytes);
  }
  proceed(peer);
}

// Answers the next line if there is one, else waits for what is missing.
void checkpoint_server::proceed(connection& peer) {
  if (auto end = peer.in.find('\n', peer.searched); end != std::string::npos) {
    peer.searched = end;
    take_line(peer);
    return;
  }
  peer.searched = peer.in.size();
  if (peer.ended) {
    // `printf '{"op":"get"}' | socat` sends no newline.
    if (peer.in.empty() && !peer.skipping)
      drop(peer);
    else
      take_line(peer);
    return;
  }
  auto limit = max_request_bytes(max_state_bytes_);
  if (peer.in.size() > limit)
    peer.refusal = too_long(max_state_bytes_);
  else if (peer.in.size() > limit / 8 && held_bytes() > budget_lines * limit)
    peer.refusal = too_much();
  if (!peer.refusal.empty()) {
    peer.skipping = true;
    peer.in = {};
    peer.searched = 0;
  }
  peer.watch.change(EPOLLIN);
}

// `searched` is where the line ends.
void checkpoint_server::take_line(connection& peer) {
  peer.waiting = true;
  peer.watch.change(0);
  auto line = peer.in.substr(0, peer.searched);
  peer.in.erase(0, peer.searched + 1);
  peer.searched = 0;
  if (peer.skipping || line.size() > max_request_bytes(max_state_bytes_)) {
    peer.skipping = false;
    auto refusal = std::exchange(peer.refusal, {});
    reply(peer.id,
          refusal.empty() ? too_long(max_state_bytes_) : std::move(refusal));
    return;
  }
  peer.in_work = line.size();
  if (peer.in.empty())
    peer.in.shrink_to_fit();
  // A big state takes long enough to read that windows would notice.
  codec_.post([weak = weak_from_this(), inbox = loop_.inbox(), id = peer.id,
               limit = max_state_bytes_, line = std::move(line)] {
    inbox->post([weak, id, parsed = parse_request(line, limit)]() mutable {
      if (auto self = weak.lock())
        self->on_parsed(id, std::move(parsed));
    });
  });
}

void checkpoint_server::on_parsed(std::uint64_t id, parsed_request parsed) {
  if (!connections_.contains(id))
    return;
  if (!parsed.request) {
    reply(id, std::move(parsed.refusal));
    return;
  }
  auto slot = std::make_shared<reply_slot>(weak_from_this(), loop_.inbox(), id,
                                           parsed.request->op);
  on_request_(std::move(*parsed.request),
              [slot](const child_reply& what) { slot->answer(what); });
}

void checkpoint_server::reply(std::uint64_t id, std::string line) {
  auto at = connections_.find(id);
  if (at == connections_.end())
    return;
  auto& peer = *at->second;
  peer.waiting = false;
  peer.in_work = 0;
  if (held_bytes() + line.size()
      > budget_lines * max_request_bytes(max_state_bytes_))
    line = too_much();
  peer.out = std::move(line);
  write_some(peer);
}

void checkpoint_server::write_some(connection& peer) {
  while (peer.written < peer.out.size()) {
    auto n
      = ::send(peer.fd.get(), peer.out.data() + peer.written,
               peer.out.size() - peer.written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      peer.written += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      peer.watch.change(EPOLLOUT);
      return;
    } else if (errno != EINTR) {
      drop(peer);
      return;
    }
  }
  peer.out = {};
  peer.written = 0;
  proceed(peer);
}

void checkpoint_server::drop(connection& peer) {
  connections_.erase(peer.id);
}

std::size_t checkpoint_server::held_bytes() const noexcept {
  std::size_t result = 0;
  for (auto& [id, peer] : connections_)
    result += peer->held();
  return result;
}

} // namespace leasehold::process
