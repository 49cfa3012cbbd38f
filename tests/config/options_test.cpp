// SPDX-License-Identifier: Apache-2.0
#include "leasehold/config/load.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <set>
#include <string>

using namespace leasehold;
using namespace leasehold::config;

namespace {

std::optional<std::string> no_variables(const std::string&) {
  return std::nullopt;
}

bool has_value_problem(const load_result& got, std::string_view path) {
  for (auto& x : got.problems)
    // That a value is missing elsewhere, or that the file which an example
    // names is not on this machine, is no problem of the value.
    if (x.text.starts_with(path) && x.text.find("missing") == std::string::npos
        && x.text.find("cannot be read") == std::string::npos)
      return true;
  return false;
}

// A file with one option set; other problems (what is missing) do not matter.
std::string file_with(const option& decl, std::string_view value) {
  std::string text;
  std::string path{decl.path};
  std::string indent;
  if (path.starts_with("pools[].")) {
    text = "pools:\n  - name: p\n";
    indent = "    ";
    path = path.substr(8);
    if (path == "name")
      return "pools:\n  - name: " + std::string{value} + "\n";
  }
  while (path.find('.') != std::string::npos) {
    text += indent + path.substr(0, path.find('.')) + ":\n";
    indent += "  ";
    path = path.substr(path.find('.') + 1);
  }
  return text + indent + path + ": " + std::string{value} + "\n";
}

} // namespace

BOOST_AUTO_TEST_SUITE(options_suite)

BOOST_AUTO_TEST_CASE(every_declaration_is_complete) {
  std::set<std::string_view> paths;
  for (auto& decl : all_options()) {
    BOOST_TEST_CONTEXT(decl.path) {
      BOOST_TEST(paths.insert(decl.path).second);
      BOOST_TEST(decl.help.ends_with("."));
      BOOST_TEST(!decl.example.empty());
      BOOST_TEST((find_option(decl.path) == &decl));
    }
  }
  BOOST_TEST(find_option("no.such.option") == nullptr);
}

BOOST_AUTO_TEST_CASE(every_example_and_every_default_is_valid) {
  for (auto& decl : all_options()) {
    for (auto value : {decl.example, decl.standard}) {
      if (value.empty())
        continue;
      BOOST_TEST_CONTEXT(decl.path << ": " << value) {
        auto got = load_text(file_with(decl, value), ".", no_variables);
        BOOST_TEST(!has_value_problem(got, decl.path));
        for (auto& x : got.problems)
          BOOST_TEST(x.text.find("unknown key") == std::string::npos);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_file_with_all_options_loads_without_a_problem) {
  auto folder = std::getenv("LEASEHOLD_TEST_FILES");
  BOOST_TEST_REQUIRE(folder != nullptr);
  auto got = load_file(std::string{folder} + "/all-options.yaml", no_variables);
  for (auto& x : got.problems)
    BOOST_ERROR(to_string(x, "all-options.yaml"));
  BOOST_TEST(got.ok());
  BOOST_TEST(got.value.pools.size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
