// SPDX-License-Identifier: Apache-2.0
#include "leasehold/process/checkpoint_protocol.hpp"

#include "leasehold/process/base64.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace leasehold::process {

namespace {

using json = nlohmann::ordered_json;

constexpr int exit_usage = 64;
constexpr int exit_data = 65;
constexpr int exit_unavailable = 69;
constexpr int exit_software = 70;
constexpr int exit_refused = 77;
constexpr int exit_config = 78;
constexpr int exit_lost = 79;

// Takes a flat object of strings and nothing else. Nesting is refused at its
// first bracket, so a hostile line costs no more memory than its own length.
class request_reader : public nlohmann::json_sax<nlohmann::json> {
public:
  std::optional<std::string> op;
  std::optional<std::string> state;
  std::optional<std::string> state_base64;
  std::string_view problem;

  bool null() override {
    return not_a_string();
  }

  bool boolean(bool) override {
    return not_a_string();
  }

  bool number_integer(number_integer_t) override {
    return not_a_string();
  }

  bool number_unsigned(number_unsigned_t) override {
    return not_a_string();
  }

  bool number_float(number_float_t, const string_t&) override {
    return not_a_string();
  }

  bool binary(binary_t&) override {
    return not_a_string();
  }

  bool string(string_t& value) override {
    if (!member_)
      return refuse("a request is a JSON object");
    if (member_->has_value())
      return refuse("a member appears twice");
    *member_ = std::move(value);
    return true;
  }

  bool key(string_t& name) override {
    member_ = name == "op"             ? &op
              : name == "state"        ? &state
              : name == "state_base64" ? &state_base64
                                       : nullptr;
    return member_
           || refuse("unknown member; known are op, state and state_base64");
  }

  bool start_object(std::size_t) override {
    if (inside_)
      return not_a_string();
    inside_ = true;
    return true;
  }

  bool end_object() override {
    return true;
  }

  bool start_array(std::size_t) override {
    return not_a_string();
  }

  bool end_array() override {
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception&) override {
    // The parser's own text quotes what it read, which may be state.
    return refuse("not valid JSON");
  }

private:
  bool refuse(std::string_view why) {
    problem = why;
    return false;
  }

  bool not_a_string() {
    return refuse(inside_ ? "every member is a string"
                          : "a request is a JSON object");
  }

  std::optional<std::string>* member_ = nullptr;
  bool inside_ = false;
};

parsed_request refused(int exit_code, std::string_view message,
                       ec code = ec::invalid_argument) {
  return {std::nullopt, format_error(to_string(code), exit_code, message)};
}

parsed_request parse_put(request_reader& members, std::size_t max_state_bytes) {
  if (members.state.has_value() == members.state_base64.has_value())
    return refused(exit_usage, "put needs either state or state_base64");
  auto state = std::move(members.state);
  if (!state)
    state = decode_base64(*members.state_base64);
  if (!state)
    return refused(exit_data, "state_base64 is not standard, padded base64");
  if (state->size() > max_state_bytes)
    return refused(exit_data,
                   fmt::format("the state has {} bytes, the limit is {}",
                               state->size(), max_state_bytes),
                   ec::state_too_large);
  return {child_request{checkpoint_op::put, std::move(state)}, {}};
}

std::string line_of(const json& document) {
  // `detail` may come from anywhere; a bad byte must not cost us the answer.
  return document.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
}

template <class T>
T member(const nlohmann::json& document, const char* name, T otherwise) {
  auto at = document.find(name);
  if (at == document.end())
    return otherwise;
  if constexpr (std::is_same_v<T, std::string>)
    return at->is_string() ? at->get<T>() : otherwise;
  else if constexpr (std::is_same_v<T, bool>)
    return at->is_boolean() ? at->get<T>() : otherwise;
  else
    return at->is_number() ? at->get<T>() : otherwise;
}

} // namespace

int checkpoint_exit_code(ec code, ec also) noexcept {
  if (also == ec::schema_missing || also == ec::not_a_store)
    return exit_data;
  if (also == ec::unavailable)
    return exit_unavailable;
  if (also == ec::config_invalid)
    return exit_config;
  switch (code) {
    case ec::none:
      return 0;
    case ec::fenced:
    case ec::lease_held:
    case ec::lease_expired:
    case ec::lease_window_exhausted:
      return exit_lost;
    case ec::unavailable:
    case ec::unknown_outcome:
    case ec::deadline_exceeded:
    case ec::cancelled:
      return exit_unavailable;
    case ec::state_too_large:
    case ec::state_unreadable:
    case ec::invalid_argument:
    case ec::schema_missing:
    case ec::not_a_store:
      return exit_data;
    case ec::store_failed:
      return exit_refused;
    default:
      return exit_software;
  }
}

parsed_request parse_request(std::string_view line,
                             std::size_t max_state_bytes) {
  request_reader members;
  if (!nlohmann::json::sax_parse(line, &members))
    return refused(exit_usage, members.problem);
  if (!members.op)
    return refused(exit_usage, "op is missing");
  if (*members.op == "put")
    return parse_put(members, max_state_bytes);
  if (*members.op != "get" && *members.op != "window")
    return refused(exit_usage, "unknown op; known are put, get and window");
  if (members.state || members.state_base64)
    return refused(exit_usage, "only put takes a state");
  auto op = *members.op == "get" ? checkpoint_op::get : checkpoint_op::window;
  return {child_request{op, std::nullopt}, {}};
}

std::string format_request(const child_request& request) {
  switch (request.op) {
    case checkpoint_op::put:
      return R"({"op":"put","state_base64":")"
             + encode_base64(request.state.value_or("")) + "\"}\n";
    case checkpoint_op::window:
      return "{\"op\":\"window\"}\n";
    default:
      return "{\"op\":\"get\"}\n";
  }
}

std::string format_reply(checkpoint_op op, const child_reply& reply) {
  if (reply.code != ec::none)
    return format_error(
      to_string(reply.code), checkpoint_exit_code(reply.code, reply.also),
      reply.detail.empty() ? explain(reply.code) : reply.detail);
  json result{{"ok", true}};
  switch (op) {
    case checkpoint_op::get:
      result["state"] = nullptr;
      result["state_base64"] = nullptr;
      if (reply.state) {
        if (is_utf8(*reply.state))
          result["state"] = *reply.state;
        result["state_base64"] = encode_base64(*reply.state);
      }
      break;
    case checkpoint_op::window:
      result["window_left_seconds"]
        = std::chrono::duration<double>{reply.window_left}.count();
      result["max_state_bytes"] = reply.max_state_bytes;
      result["stop_requested"] = reply.stop_requested;
      break;
    default:
      result["stop_requested"] = reply.stop_requested;
      break;
  }
  return line_of(result);
}

std::string format_error(std::string_view error, int exit_code,
                         std::string_view message) {
  return line_of({{"ok", false},
                  {"error", error},
                  {"exit_code", exit_code},
                  {"message", message}});
}

std::optional<checkpoint_result> parse_reply(std::string_view line) {
  auto document = nlohmann::json::parse(line, nullptr, false);
  if (!document.is_object() || !document.contains("ok")
      || !document["ok"].is_boolean())
    return std::nullopt;
  checkpoint_result result;
  result.stop_requested = member(document, "stop_requested", false);
  if (!document["ok"].get<bool>()) {
    auto code = member(document, "exit_code", exit_software);
    result.exit_code = code > 0 && code < 256 ? code : exit_software;
    result.error = member(document, "error", std::string{"unavailable"});
    result.message = member(document, "message", std::string{});
    return result;
  }
  auto left = member(document, "window_left_seconds", 0.0);
  if (std::isfinite(left) && left > 0)
    result.window_left = std::min(
      max_duration, std::chrono::duration_cast<duration>(
                      std::chrono::duration<double>{std::min(left, 3.0e9)}));
  result.max_state_bytes = member(document, "max_state_bytes", std::size_t{0});
  if (auto at = document.find("state_base64");
      at != document.end() && at->is_string()) {
    result.state = decode_base64(at->get_ref<const std::string&>());
    if (!result.state)
      return std::nullopt;
  }
  return result;
}

} // namespace leasehold::process
