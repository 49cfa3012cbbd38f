// SPDX-License-Identifier: Apache-2.0
#include "leasehold/codec.hpp"
#include "leasehold/codec/json.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

using namespace leasehold;

namespace {

struct progress {
  int line = 0;
  std::string file;
  std::map<std::string, double> totals;

  friend bool operator==(const progress&, const progress&) = default;

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(progress, line, file, totals)
};

/// A type whose own rules are stricter than JSON's.
struct positive {
  int value = 1;
};

void to_json(nlohmann::json& to, const positive& x) {
  if (x.value <= 0)
    throw std::domain_error("not positive");
  to = x.value;
}

void from_json(const nlohmann::json& from, positive& x) {
  x.value = from.get<int>();
  if (x.value <= 0)
    throw std::domain_error("not positive");
}

/// A codec of somebody else, with errors of its own kind.
struct picky {
  template <class T>
  struct outcome {
    outcome(T x) : value(std::move(x)) {
      // nop
    }

    explicit outcome(int code, T x = T{}) : value(std::move(x)), why(code) {
      // nop
    }

    explicit operator bool() const {
      return why == 0;
    }

    const T& operator*() const {
      return value;
    }

    int error() const {
      return why;
    }

    T value;
    int why = 0;
  };

  struct item {
    std::string text = "fresh";
  };

  int* calls;

  outcome<std::string> encode(const item& x) const {
    ++*calls;
    if (x.text == "throw")
      throw std::runtime_error("from inside");
    return x.text == "bad" ? outcome<std::string>{17} : x.text;
  }

  template <class T>
  requires std::same_as<T, item> outcome<T> decode(std::string_view bytes)
  const {
    ++*calls;
    if (bytes == "throw")
      throw std::runtime_error("from inside");
    return bytes == "bad" ? outcome<T>{18} : T{std::string{bytes}};
  }
};

bool from_inside(const std::runtime_error& x) {
  return std::string{x.what()} == "from inside";
}

/// `Codec` refuses `bytes` and does not tell what they were.
template <class T, class Codec>
void check_refused(const std::string& bytes, const Codec& codec,
                   std::string_view secret) {
  auto got = decode<T>(bytes, codec);
  BOOST_TEST_REQUIRE(!got);
  BOOST_TEST((got.error().code == ec::state_unreadable));
  BOOST_TEST(!got.error().detail.empty());
  BOOST_TEST(got.error().detail.find(secret) == std::string::npos);
}

} // namespace

BOOST_AUTO_TEST_SUITE(codec_suite)

// contract 199, 203
BOOST_AUTO_TEST_CASE(json_gives_back_what_it_was_given) {
  progress some{40'000, "a \"b\" \xc3\xa4\n", {{"eu", 0.1}, {"us", -1e300}}};
  auto bytes = encode(some, codec::json{});
  BOOST_TEST_REQUIRE(static_cast<bool>(bytes));
  BOOST_TEST(bytes->starts_with("{\"file\":"));
  BOOST_TEST((*decode<progress>(*bytes, codec::json{}) == some));
  for (auto x : {std::numeric_limits<std::int64_t>::min(), std::int64_t{0},
                 std::numeric_limits<std::int64_t>::max()})
    BOOST_TEST(*decode<std::int64_t>(*encode(x, codec::json{}), codec::json{})
               == x);
}

// contract 199, 203
BOOST_AUTO_TEST_CASE(raw_is_the_string_itself) {
  for (auto& x : {std::string{"line 40"}, std::string{"a\0\xff", 3}}) {
    BOOST_TEST(*encode(x, codec::raw{}) == x);
    BOOST_TEST(*decode<std::string>(x, codec::raw{}) == x);
  }
}

// contract 199
BOOST_AUTO_TEST_CASE(any_object_with_the_two_members_is_a_codec) {
  int calls = 0;
  picky::item some{"x"};
  BOOST_TEST(*encode(some, picky{&calls}) == "x");
  BOOST_TEST((*decode<picky::item>("y", picky{&calls})).text == "y");
  BOOST_TEST(calls == 2);
}

// contract 200
BOOST_AUTO_TEST_CASE(no_state_is_the_default_value_without_asking_the_codec) {
  int calls = 0;
  auto got = decode<picky::item>(std::nullopt, picky{&calls});
  BOOST_TEST_REQUIRE(static_cast<bool>(got));
  BOOST_TEST((*got).text == "fresh");
  BOOST_TEST(calls == 0);
  // No JSON document is empty, so this would fail if it were asked.
  BOOST_TEST((*decode<progress>(std::nullopt, codec::json{}) == progress{}));
  BOOST_TEST(decode<std::string>(std::nullopt, codec::raw{})->empty());
}

// contract 201
BOOST_AUTO_TEST_CASE(errors_of_a_codec_come_back_as_they_are) {
  int calls = 0;
  picky codec{&calls};
  BOOST_TEST(encode(picky::item{"bad"}, codec).error() == 17);
  BOOST_TEST(decode<picky::item>("bad", codec).error() == 18);
  BOOST_CHECK_EXCEPTION(encode(picky::item{"throw"}, codec), std::runtime_error,
                        from_inside);
  BOOST_CHECK_EXCEPTION(decode<picky::item>("throw", codec), std::runtime_error,
                        from_inside);
  BOOST_CHECK_THROW(encode(positive{-1}, codec::json{}), std::domain_error);
  BOOST_CHECK_THROW(decode<positive>("-1", codec::json{}), std::domain_error);
}

// contract 202: it does not compile.
BOOST_AUTO_TEST_CASE(there_is_no_way_to_forget_the_codec) {
  static_assert(codec_for<codec::json, progress>);
  static_assert(codec_for<codec::raw, std::string>);
  static_assert(codec_for<picky, picky::item>);
  static_assert(!codec_for<std::nullptr_t, progress>);
  static_assert(!codec_for<codec::json*, progress>);
  static_assert(!codec_for<codec::raw, progress>);
}

BOOST_AUTO_TEST_CASE(json_says_where_but_not_what_it_could_not_read) {
  for (auto bad :
       {"", "{", "hunter2", "{\"line\": hunter2", "\"hunter2", "\xff\xfe",
        "{\"line\":1,\"file\":\"hunter2\",\"totals\":{}} trailing",
        "{\"line\":\"hunter2\",\"file\":\"\",\"totals\":{}}", "{\"hunter2\":1}",
        "[\"hunter2\"]", "\"hunter2\"",
        "{\"line\":1,\"file\":\"\",\"totals\":{\"hunter2\":\"hunter2\"}}"})
    check_refused<progress>(bad, codec::json{}, "hunter2");
  check_refused<double>("9e4711", codec::json{}, "4711");
  auto got = decode<progress>("{\"line\": hunter2}", codec::json{});
  BOOST_TEST(got.error().detail
             == "the state of 17 bytes is not JSON from byte 10 on");
}

BOOST_AUTO_TEST_CASE(json_refuses_text_that_is_not_utf_8) {
  auto got = encode(std::string{"caf\xe9"}, codec::json{});
  BOOST_TEST_REQUIRE(!got);
  BOOST_TEST((got.error().code == ec::invalid_argument));
  BOOST_TEST(got.error().detail.find("E9") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(json_survives_documents_of_any_depth) {
  std::string deep(200'000, '[');
  check_refused<progress>(deep, codec::json{}, "[[");
  check_refused<progress>(deep + std::string(200'000, ']'), codec::json{},
                          "[[");
}

BOOST_AUTO_TEST_SUITE_END()
