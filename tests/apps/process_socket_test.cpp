// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/checkpoint_client.hpp"

#include "process_support.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

using namespace leasehold;
using namespace leasehold::process;
using namespace leasehold::process::test;

namespace {

constexpr std::size_t limit = 256 * 1024;

// A peer that writes what it likes.
struct peer {
  explicit peer(const std::string& path)
    : fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    BOOST_REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                            sizeof(address))
                  == 0);
    timeval wait{30, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
  }

  peer& say(std::string_view text) {
    while (!text.empty()) {
      auto n = ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0)
        break;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    return *this;
  }

  // A line without its newline; empty at the end.
  std::string hear() {
    std::string result;
    for (char c; ::recv(fd.get(), &c, 1, 0) == 1 && c != '\n';)
      result.push_back(c);
    return result;
  }

  std::string ask(std::string_view line) {
    say(line).say("\n");
    return hear();
  }

  bool at_end() {
    char c;
    return ::recv(fd.get(), &c, 1, 0) == 0;
  }

  descriptor fd;
};

struct fixture : world {
  fixture() : world(true, options()) {
    auto what = spec({"polite"});
    auto events = child.events();
    events.on_request = [this](child_request x, auto answer) {
      on_request(std::move(x), std::move(answer));
    };
    child.id = aut->start(what, events);
    child.pid();
    path = folder.file(std::to_string(static_cast<std::uint64_t>(child.id))
                       + ".sock");
  }

  ~fixture() {
    end(); // before what the events refer to
  }

  static supervisor_options options() {
    supervisor_options result;
    result.max_state_bytes = limit;
    return result;
  }

  // A store that remembers; in the supervisor's thread.
  std::function<void(child_request, child_events::answer_function)> on_request
    = [this](child_request x, child_events::answer_function answer) {
        child_reply reply;
        if (x.op == checkpoint_op::put)
          stored = std::move(x.state);
        else
          reply.state = stored;
        answer(std::move(reply));
      };

  std::optional<std::string> stored;
  std::string path;
  observed child;
};

constexpr auto refused = "{\"ok\":false";

} // namespace

BOOST_FIXTURE_TEST_SUITE(process_socket_suite, fixture)

BOOST_AUTO_TEST_CASE(the_socket_is_private_and_goes_with_the_child) {
  struct stat info {};

  BOOST_REQUIRE(::stat(path.c_str(), &info) == 0);
  BOOST_TEST((info.st_mode & 0777) == 0600u);
  peer x{path};
  aut->kill(child.id);
  child.result();
  BOOST_TEST(!std::filesystem::exists(path));
  BOOST_TEST(x.at_end());
  auto result = checkpoint_client{path}.get();
  BOOST_TEST(result.exit_code == 79);
  BOOST_TEST(result.error == "lease_expired");
  BOOST_TEST(result.message.find("this run is over") != std::string::npos);
  BOOST_TEST(result.message.find("LEASEHOLD_SOCKET") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(state_goes_there_and_back) {
  checkpoint_client x{path};
  BOOST_TEST(!x.get().state);
  std::string state{"\0\xff any bytes\n", 13};
  BOOST_TEST(x.put(state).ok());
  BOOST_TEST((x.get().state == state));
  BOOST_TEST(x.put("").ok());
  BOOST_TEST((x.get().state == ""));
  state.assign(limit, '\1');
  BOOST_TEST(x.put(state).ok());
  BOOST_TEST((x.get().state == state));
  state += 'x';
  BOOST_TEST(x.put(state).exit_code == 65);
}

BOOST_AUTO_TEST_CASE(a_child_reaches_its_own_socket) {
  auto run_with = [&](std::vector<std::string> arguments, ec code) {
    observed x;
    auto events = x.events();
    events.on_request = [code](const child_request&, auto answer) {
      child_reply reply;
      reply.code = code;
      answer(reply);
    };
    aut->start(spec(std::move(arguments)), events);
    return x.result().code;
  };
  BOOST_TEST(run_with({"put", "a"}, ec::none) == 0);
  BOOST_TEST(run_with({"put", "a"}, ec::fenced) == 79);
  BOOST_TEST(run_with({"put", "a"}, ec::unknown_outcome) == 69);
  BOOST_TEST(run_with({"get"}, ec::lease_expired) == 79);
}

BOOST_AUTO_TEST_CASE(the_window_is_answered_without_the_owner) {
  auto what = spec({"window"});
  what.window = window(1h);
  BOOST_TEST(run(what).code == 0);
  auto line = output->wait_for("left");
  auto left = std::stol(line.substr(line.find("left") + 5));
  BOOST_TEST(left > 3'000'000'000);
  BOOST_TEST(left <= 3'600'000'000);
  BOOST_TEST(line.ends_with(" 0"));
}

BOOST_AUTO_TEST_CASE(one_connection_asks_many_times_even_ahead) {
  peer x{path};
  BOOST_TEST(
    x.ask("{\"op\":\"put\",\"state\":\"a\"}").starts_with("{\"ok\":true"));
  x.say("{\"op\":\"get\"}\n{\"op\":\"nonsense\"}\n{\"op\":\"get\"}\n");
  BOOST_TEST(x.hear().find("YQ==") != std::string::npos);
  BOOST_TEST(x.hear().starts_with(refused));
  BOOST_TEST(x.hear().find("YQ==") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_last_line_needs_no_newline) {
  peer x{path};
  x.say("{\"op\":\"get\"}");
  ::shutdown(x.fd.get(), SHUT_WR);
  BOOST_TEST(x.hear().starts_with("{\"ok\":true"));
  BOOST_TEST(x.at_end());
  peer y{path};
  y.say("{\"op\":");
  ::shutdown(y.fd.get(), SHUT_WR);
  BOOST_TEST(y.hear().starts_with(refused));
  BOOST_TEST(y.at_end());
}

BOOST_AUTO_TEST_CASE(overlong_lines_are_skipped_and_refused) {
  peer x{path};
  std::string block(1024 * 1024, 'x');
  for (auto i = 0; i < 20; ++i)
    x.say(block);
  x.say("\n");
  auto line = x.hear();
  BOOST_TEST(line.find("state_too_large") != std::string::npos);
  BOOST_TEST(line.find("\"exit_code\":65") != std::string::npos);
  BOOST_TEST(x.ask("{\"op\":\"get\"}").starts_with("{\"ok\":true"));
}

BOOST_AUTO_TEST_CASE(peers_that_vanish_or_never_read_do_no_harm) {
  stored = std::string(limit, 'x');
  std::vector<std::unique_ptr<peer>> deaf;
  for (auto i = 0; i < 50; ++i) {
    peer{path}.say("{\"op\":\"ge");
    peer{path}.say("{\"op\":\"get\"}\n");
    deaf.push_back(std::make_unique<peer>(path));
    for (auto j = 0; j < 100; ++j)
      ::send(deaf.back()->fd.get(), "{\"op\":\"get\"}\n", 13,
             MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  deaf.resize(1);
  BOOST_TEST(
    eventually([&] { return checkpoint_client{path}.put("alive").ok(); }));
  BOOST_TEST((stored == "alive"));
}

BOOST_AUTO_TEST_CASE(connections_have_a_limit) {
  std::vector<std::unique_ptr<peer>> all;
  for (auto i = 0; i < 64; ++i) {
    all.push_back(std::make_unique<peer>(path));
    BOOST_TEST(all.back()->ask("{\"op\":\"get\"}").starts_with("{\"ok\":true"));
  }
  peer extra{path};
  BOOST_TEST(extra.hear().find("too many") != std::string::npos);
  BOOST_TEST(extra.at_end());
  all.clear();
  BOOST_TEST(eventually([&] { return checkpoint_client{path}.get().ok(); }));
}

BOOST_AUTO_TEST_CASE(two_puts_at_once_are_both_answered_each_by_its_own) {
  std::mutex mutex;
  std::vector<std::pair<std::string, child_events::answer_function>> waiting;
  on_request = [&](child_request x, child_events::answer_function answer) {
    std::lock_guard lock{mutex};
    waiting.emplace_back(*x.state, std::move(answer));
  };
  peer a{path};
  peer b{path};
  a.say("{\"op\":\"put\",\"state\":\"a\"}\n");
  b.say("{\"op\":\"put\",\"state\":\"b\"}\n");
  BOOST_REQUIRE(eventually([&] {
    std::lock_guard lock{mutex};
    return waiting.size() == 2;
  }));
  for (auto& [state, answer] : waiting) {
    child_reply reply;
    reply.code = ec::fenced;
    reply.detail = "told to " + state;
    answer(reply);
    answer({}); // ignored
  }
  BOOST_TEST(b.hear().find("told to b") != std::string::npos);
  BOOST_TEST(a.hear().find("told to a") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_answer_may_come_when_everything_is_gone) {
  std::promise<child_events::answer_function> promise;
  on_request = [&](const child_request&, child_events::answer_function x) {
    promise.set_value(std::move(x));
  };
  peer x{path};
  x.say("{\"op\":\"get\"}\n");
  auto answer = promise.get_future().get();
  aut->kill(child.id);
  child.result();
  answer({});
  BOOST_TEST(x.at_end());
  end();
  answer({});
}

BOOST_AUTO_TEST_CASE(a_dropped_request_has_an_unknown_outcome) {
  on_request = [](const child_request&, const auto&) {};
  auto result = checkpoint_client{path}.put("x");
  BOOST_TEST(result.exit_code == 69);
  BOOST_TEST(result.error == "unknown_outcome");
}

BOOST_AUTO_TEST_CASE(the_client_gives_up_in_time) {
  std::promise<child_events::answer_function> promise;
  on_request = [&](const child_request&, child_events::answer_function x) {
    promise.set_value(std::move(x));
  };
  auto result = checkpoint_client{path, 50ms}.put("x");
  BOOST_TEST(result.exit_code == 69);
  BOOST_TEST(result.error == "unknown_outcome");
  promise.get_future().get();
}

BOOST_AUTO_TEST_CASE(the_client_says_what_is_missing) {
  ::unsetenv("LEASEHOLD_SOCKET");
  auto result = checkpoint_client::from_environment().get();
  BOOST_TEST(result.exit_code == 64);
  BOOST_TEST(result.message.find("is not set") != std::string::npos);
  BOOST_TEST(checkpoint_client{std::string(200, 'x')}.get().exit_code == 64);
}

BOOST_AUTO_TEST_CASE(a_socket_that_a_dead_runner_left_behind_ends_the_run) {
  auto left = folder.file("left.sock");
  {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, left.c_str(), left.size() + 1);
    descriptor fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    BOOST_REQUIRE(
      ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address))
      == 0);
  }
  BOOST_TEST(checkpoint_client{left}.put("x").exit_code == 79);
}

BOOST_AUTO_TEST_CASE(states_are_read_up_to_a_limit) {
  auto read_from = [](std::string_view text, std::string& into) {
    auto ends = make_pipe();
    [[maybe_unused]] auto n
      = ::write(ends->write.get(), text.data(), text.size());
    ends->write.reset();
    return read_state(ends->read.get(), 5, into);
  };
  std::string state;
  BOOST_TEST((read_from("12345", state) == read_result::complete));
  BOOST_TEST(state == "12345");
  std::string more;
  BOOST_TEST((read_from("123456", more) == read_result::over_limit));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_read_is_no_state) {
  std::string state;
  descriptor fd{::open("/tmp", O_RDONLY | O_CLOEXEC)};
  BOOST_TEST((read_state(fd.get(), 5, state) == read_result::failed));
  BOOST_TEST(errno == EISDIR);
  BOOST_TEST((read_state(-1, 5, state) == read_result::failed));
  BOOST_TEST(errno == EBADF);
}

BOOST_AUTO_TEST_CASE(an_endless_state_is_given_up_at_the_limit) {
  std::string state;
  descriptor fd{::open("/dev/zero", O_RDONLY | O_CLOEXEC)};
  BOOST_TEST((read_state(fd.get(), limit, state) == read_result::over_limit));
  BOOST_TEST(state.size() <= limit + 64 * 1024);
}

BOOST_AUTO_TEST_SUITE_END()
