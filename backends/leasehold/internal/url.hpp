// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace leasehold::internal {

/// The parts of a store URL, percent-decoded but for the hosts.
struct url {
  std::string scheme;

  /// Whether the scheme is followed by `//`.
  bool has_authority = false;

  std::optional<std::string> user;
  std::optional<std::string> password;

  /// `host`, `host:port`, `[::1]:port`, or several of them with commas.
  std::string hosts;

  /// With its leading slash, if it has one.
  std::string path;

  std::vector<std::pair<std::string, std::string>> query;
};

/// Everything up to the first colon if that can be a scheme, in lower case;
/// else empty.
std::string url_scheme(std::string_view text);

/// Takes a URL apart. On failure returns nothing and sets `problem` to a
/// sentence that holds no part of the URL behind the scheme.
std::optional<url> parse_url(std::string_view text, std::string& problem);

/// Encodes all but letters, digits and `-._~`.
std::string percent_encode(std::string_view text);

/// Replaces each occurrence of `secret` in `text` by ***.
std::string without_secret(std::string text, std::string_view secret);

} // namespace leasehold::internal
