// SPDX-License-Identifier: Apache-2.0
#include "leasehold/errors.hpp"

// Reading a code needs its type ID, which CAF 1.x declares there.
#include "leasehold/messages.hpp"

#include <utility>

namespace leasehold {

caf::error fail(ec code, std::string detail, ec also) {
  return caf::make_error(code, std::move(detail),
                         static_cast<std::uint8_t>(also));
}

caf::error to_error(const backend::outcome& x) {
  return fail(x.code, x.detail, x.also);
}

bool matches(const caf::error& err, ec code) {
  return matches(code_of(err), code) || matches(also_of(err), code);
}

ec code_of(const caf::error& err) {
  if (!err)
    return ec::none;
  if (auto code = error_as<ec>(err))
    return *code;
  return ec::unknown_outcome;
}

ec also_of(const caf::error& err) {
  auto result = ec::none;
  if (error_as<ec>(err)
      && err.context().match_elements<std::string, std::uint8_t>())
    from_integer(err.context().get_as<std::uint8_t>(1), result);
  return result;
}

std::string detail_of(const caf::error& err) {
  if (error_as<ec>(err)
      && err.context().match_elements<std::string, std::uint8_t>())
    return err.context().get_as<std::string>(0);
  return {};
}

std::string render(const caf::error& err) {
  if (!err)
    return "none";
  auto code = error_as<ec>(err);
  if (!code)
    return "unknown_outcome: no answer (" + caf::to_string(err) + ")";
  auto detail = detail_of(err);
  auto also = also_of(err);
  auto result = to_string(*code);
  if (also != ec::none)
    result += " (" + to_string(also) + ")";
  result += ": ";
  result += detail.empty() ? std::string{explain(*code)} : detail;
  return result;
}

} // namespace leasehold
