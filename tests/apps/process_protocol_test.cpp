// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/base64.hpp"
#include "leasehold/process/checkpoint_protocol.hpp"

#include <boost/test/unit_test.hpp>

using namespace leasehold;
using namespace leasehold::process;

namespace {

constexpr std::size_t limit = 100;

checkpoint_result refusal_of(std::string_view line) {
  auto parsed = parse_request(line, limit);
  BOOST_REQUIRE(!parsed.request);
  BOOST_REQUIRE(parsed.refusal.ends_with('\n'));
  auto result = parse_reply(parsed.refusal);
  BOOST_REQUIRE(result);
  BOOST_TEST(!result->message.empty());
  BOOST_TEST(result->message.find("s3cret") == std::string::npos);
  return *result;
}

std::string state_in(std::string_view line) {
  auto parsed = parse_request(line, limit);
  BOOST_REQUIRE_MESSAGE(parsed.request, parsed.refusal);
  BOOST_REQUIRE(parsed.request->state);
  return *parsed.request->state;
}

} // namespace

BOOST_AUTO_TEST_SUITE(process_protocol_suite)

BOOST_AUTO_TEST_CASE(base64_of_known_values) {
  for (auto [bytes, text] :
       {std::pair{"", ""}, std::pair{"f", "Zg=="}, std::pair{"fo", "Zm8="},
        std::pair{"foo", "Zm9v"}, std::pair{"foobar", "Zm9vYmFy"}}) {
    BOOST_TEST(encode_base64(bytes) == text);
    BOOST_TEST(decode_base64(text).value() == bytes);
  }
}

BOOST_AUTO_TEST_CASE(base64_returns_all_bytes) {
  std::string bytes;
  for (auto i = 0; i < 1000; ++i) {
    BOOST_TEST((decode_base64(encode_base64(bytes)) == bytes));
    bytes.push_back(static_cast<char>(i * 7));
  }
}

BOOST_AUTO_TEST_CASE(base64_is_strict) {
  for (auto* text : {"Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm 9", "Zm9v\n",
                     "=m9v", "====", "Z===", "Zg==Zg==", "Zm-_", "Zm9vA"})
    BOOST_TEST(!decode_base64(text), text);
}

BOOST_AUTO_TEST_CASE(utf8_is_strict) {
  for (auto* good : {"", "abc", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    BOOST_TEST(is_utf8(good));
  for (auto* bad : {"\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xc3",
                    "\xf4\x90\x80\x80", "\xf0\x80\x80\x80", "\xff", "\xe2\x82"})
    BOOST_TEST(!is_utf8(bad));
}

BOOST_AUTO_TEST_CASE(requests_are_read) {
  BOOST_TEST(state_in(R"({"op":"put","state":"text"})") == "text");
  BOOST_TEST(state_in(R"( { "state" : "" , "op":"put" } )").empty());
  BOOST_TEST(state_in(R"({"op":"put","state":"\u00e9"})") == "\xc3\xa9");
  BOOST_TEST((state_in(R"({"op":"put","state_base64":"AAE="})")
              == std::string{"\0\1", 2}));
  BOOST_TEST((parse_request(R"({"op":"get"})", limit).request->op
              == checkpoint_op::get));
  BOOST_TEST((parse_request(R"({"op":"window"})", limit).request->op
              == checkpoint_op::window));
}

BOOST_AUTO_TEST_CASE(what_the_client_writes_can_be_read) {
  child_request x{checkpoint_op::put, std::string{"a\0\xff\n\"", 5}};
  auto line = format_request(x);
  line.pop_back();
  BOOST_TEST((state_in(line) == *x.state));
}

BOOST_AUTO_TEST_CASE(misuse_is_64) {
  for (auto* line : {"",
                     "s3cret",
                     "{",
                     R"({"op":"put","state":"s3cret)",
                     "[]",
                     "42",
                     "null",
                     R"("get")",
                     "{}",
                     R"({"op":"steal"})",
                     R"({"op":7})",
                     R"({"op":"put"})",
                     R"({"op":"put","state":7})",
                     R"({"op":"put","state":"s3cret","state_base64":"AAE="})",
                     R"({"op":"get","state":"s3cret"})",
                     R"({"op":"get","op":"get"})",
                     R"({"op":"get"} {"op":"get"})",
                     R"({"op":{"op":"get"}})",
                     R"({"op":["get"]})",
                     R"({"op":"put","s3cret":"x"})",
                     "{\"op\":\"put\",\"state\":\"s3cret\xff\"}"})
    BOOST_TEST(refusal_of(line).exit_code == 64, line);
}

BOOST_AUTO_TEST_CASE(deep_nesting_is_refused_at_its_first_bracket) {
  BOOST_TEST(refusal_of(std::string(1'000'000, '[')).exit_code == 64);
}

BOOST_AUTO_TEST_CASE(bad_data_is_65) {
  auto x = refusal_of(R"({"op":"put","state_base64":"s3cret"})");
  BOOST_TEST(x.exit_code == 65);
  BOOST_TEST(x.error == "invalid_argument");
  x = refusal_of(R"({"op":"put","state":")" + std::string(101, 'x') + "\"}");
  BOOST_TEST(x.exit_code == 65);
  BOOST_TEST(x.error == "state_too_large");
}

BOOST_AUTO_TEST_CASE(codes_become_exit_codes) {
  for (auto code : {ec::fenced, ec::lease_expired, ec::lease_window_exhausted})
    BOOST_TEST(checkpoint_exit_code(code) == 79);
  for (auto code :
       {ec::unavailable, ec::unknown_outcome, ec::deadline_exceeded})
    BOOST_TEST(checkpoint_exit_code(code) == 69);
  BOOST_TEST(checkpoint_exit_code(ec::state_too_large) == 65);
  for (auto also : {ec::schema_missing, ec::not_a_store})
    BOOST_TEST(checkpoint_exit_code(ec::store_failed, also) == 65);
  BOOST_TEST(checkpoint_exit_code(ec::store_failed, ec::config_invalid) == 78);
  BOOST_TEST(checkpoint_exit_code(ec::store_failed) == 77);
  for (auto i = 1; i <= static_cast<int>(last_ec); ++i)
    BOOST_TEST(checkpoint_exit_code(static_cast<ec>(i)) >= 64);
}

BOOST_AUTO_TEST_CASE(replies_have_their_documented_form) {
  child_reply x;
  BOOST_TEST(format_reply(checkpoint_op::put, x)
             == "{\"ok\":true,\"stop_requested\":false}\n");
  BOOST_TEST(format_reply(checkpoint_op::get, x)
             == "{\"ok\":true,\"state\":null,\"state_base64\":null}\n");
  x.state = "a\"b";
  BOOST_TEST(
    format_reply(checkpoint_op::get, x)
    == "{\"ok\":true,\"state\":\"a\\\"b\",\"state_base64\":\"YSJi\"}\n");
  x.state = "\xff";
  BOOST_TEST(format_reply(checkpoint_op::get, x)
             == "{\"ok\":true,\"state\":null,\"state_base64\":\"/w==\"}\n");
  x.window_left = std::chrono::milliseconds{12500};
  x.max_state_bytes = 100;
  x.stop_requested = true;
  BOOST_TEST(format_reply(checkpoint_op::window, x)
             == "{\"ok\":true,\"window_left_seconds\":12.5,"
                "\"max_state_bytes\":100,\"stop_requested\":true}\n");
  x.code = ec::fenced;
  x.detail = "token 7 is history";
  BOOST_TEST(format_reply(checkpoint_op::put, x)
             == "{\"ok\":false,\"error\":\"fenced\",\"exit_code\":79,"
                "\"message\":\"token 7 is history\"}\n");
}

BOOST_AUTO_TEST_CASE(replies_are_read_back_or_refused) {
  child_reply x;
  x.state = "";
  x.window_left = std::chrono::seconds{3};
  BOOST_TEST(parse_reply(format_reply(checkpoint_op::get, x))->state->empty());
  BOOST_TEST((parse_reply(format_reply(checkpoint_op::window, x))->window_left
              == x.window_left));
  for (auto* line : {"", "nonsense", "[]", "{}", R"({"ok":1})",
                     R"({"ok":true,"state_base64":"A"})"})
    BOOST_TEST(!parse_reply(line));
  BOOST_TEST(parse_reply(R"({"ok":false,"exit_code":0})")->exit_code == 70);
}

BOOST_AUTO_TEST_SUITE_END()
