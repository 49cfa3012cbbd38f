// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/output_pump.hpp"

#include "process_support.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>

using namespace leasehold;
using namespace leasehold::process;
using namespace leasehold::process::test;

namespace {

std::vector<std::string> split(const std::vector<std::string>& blocks) {
  std::vector<std::string> result;
  auto keep = [&](std::string_view x) { result.emplace_back(x); };
  line_splitter aut;
  for (auto& x : blocks)
    aut.feed(x, keep);
  aut.finish(keep);
  return result;
}

using strings = std::vector<std::string>;

long resident_kib() {
  std::ifstream in{"/proc/self/status"};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmRSS:"))
      return std::stol(line.substr(6));
  return 0;
}

} // namespace

BOOST_AUTO_TEST_SUITE(process_output_suite)

BOOST_AUTO_TEST_CASE(lines_are_cut_at_newlines_wherever_blocks_end) {
  BOOST_TEST((split({"a\nb", "c\n\n", "d"}) == strings{"a", "bc", "", "d"}));
  BOOST_TEST((split({"a", "\n"}) == strings{"a"}));
  BOOST_TEST(split({}).empty());
}

BOOST_AUTO_TEST_CASE(overlong_lines_are_cut) {
  std::string line(max_line_bytes, 'x');
  BOOST_TEST((split({line + "\n"}) == strings{line}));
  BOOST_TEST((split({line + "yz\nw"}) == strings{line, "yz", "w"}));
  BOOST_TEST((split({line, "y\n"}) == strings{line, "y"}));
  BOOST_TEST(
    (split({line.substr(1), line + "\n"}) == strings{line, line.substr(1)}));
}

BOOST_AUTO_TEST_CASE(prefixes_have_no_control_characters) {
  BOOST_TEST(line_prefix("pool/a\nb\x1b") == "pool/a?b? | ");
}

BOOST_AUTO_TEST_CASE(no_line_is_lost_or_torn_at_full_speed) {
  world x;
  constexpr auto count = 100'000;
  auto first = world::spec({"lines", std::to_string(count)});
  first.label = "first";
  auto second = first;
  second.label = "second";
  auto a = x.start(first);
  auto b = x.start(second);
  BOOST_TEST(a->result().code == 0);
  BOOST_TEST(b->result().code == 0);
  x.aut.reset();
  x.out.reset();
  std::size_t next[2] = {0, 0};
  auto wrong = 0;
  BOOST_REQUIRE(
    eventually([&] { return x.output->lines().size() == 2 * count; }, 5s));
  for (auto& line : x.output->lines()) {
    auto which = line.starts_with("first | ") ? 0 : 1;
    auto wanted = std::string{which == 0 ? "first" : "second"} + " | line "
                  + std::to_string(next[which]++)
                  + " of a text that is neither short nor long";
    wrong += line != wanted;
  }
  BOOST_TEST(wrong == 0);
}

// Supervisor/supervisor#1554: 200 MB for a reader that does not read, while
// everything else goes on.
BOOST_AUTO_TEST_CASE(a_reader_that_stops_holds_up_nothing_but_the_writer) {
  world x{false};
  auto flood = x.start(world::spec({"flood", "200000000"}));
  flood->pid();
  auto before = resident_kib();
  auto lease = world::window(800ms);
  auto what = world::spec({"flood", "200000000"});
  what.window = lease;
  what.kill_before = 300ms;
  auto doomed = x.start(what);
  for (auto i = 0; i < 20; ++i)
    BOOST_TEST(x.run_helper({"exit", "5"}).code == 5);
  BOOST_TEST(doomed->result().killed);
  BOOST_TEST((lease->until_end() > 0ns));
  BOOST_TEST((flood->ended_future.wait_for(0s) == std::future_status::timeout));
  // The reader comes back.
  std::atomic<std::size_t> bytes{0};
  std::thread reader{[&] {
    char block[65536];
    for (ssize_t n; (n = ::read(x.unread.get(), block, sizeof(block))) > 0;)
      bytes += static_cast<std::size_t>(n);
  }};
  BOOST_TEST(flood->result().code == 0);
  BOOST_TEST(resident_kib() - before < 64 * 1024);
  x.end();
  reader.join();
  BOOST_TEST(bytes > 200'000'000u);
}

BOOST_AUTO_TEST_CASE(a_closed_output_is_reported_once_and_children_go_on) {
  std::promise<int> lost;
  supervisor_options options;
  options.on_output_lost = [&](int code) { lost.set_value(code); };
  world x{false, options};
  x.unread.reset();
  BOOST_TEST(x.run_helper({"lines", "10000"}).code == 0);
  BOOST_TEST(x.run_helper({"lines", "10000"}).code == 0);
  BOOST_TEST(lost.get_future().get() == EPIPE);
}

BOOST_AUTO_TEST_CASE(our_own_output_does_not_become_non_blocking) {
  world x;
  x.run_helper({"lines", "10"});
  BOOST_TEST((::fcntl(x.out.get(), F_GETFL) & O_NONBLOCK) == 0);
}

BOOST_AUTO_TEST_CASE(an_escaped_process_does_not_hold_up_the_end) {
  world x;
  auto child = x.start(world::spec({"escape"}));
  auto pid = numbers_in(x.output->wait_for("ready")).front();
  BOOST_TEST(child->result().code == 0);
  BOOST_TEST(is_alive(pid)); // out of our reach, as documented
  ::kill(pid, SIGKILL);
}

BOOST_AUTO_TEST_CASE(files_are_appended_to) {
  world x;
  auto path = x.folder.file("log");
  auto what = world::spec({"lines", "1"});
  what.output = output_mode::file;
  what.output_file = path;
  x.run(what);
  x.run(what);
  std::ifstream in{path};
  auto count = 0;
  for (std::string line; std::getline(in, line);)
    count += line.starts_with("line 0");
  BOOST_TEST(count == 2);
  BOOST_TEST(x.output->lines().empty());
}

BOOST_AUTO_TEST_CASE(discarded_output_goes_nowhere) {
  world x;
  auto what = world::spec({"lines", "1000"});
  what.output = output_mode::discard;
  BOOST_TEST(x.run(what).code == 0);
  BOOST_TEST(x.output->lines().empty());
}

BOOST_AUTO_TEST_SUITE_END()
