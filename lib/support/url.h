#pragma once

#include <string>
#include <string_view>

namespace dimred {

/// Whether `text` begins like scheme://.
bool looks_like_url(std::string_view text);

/// scheme://[user:password@]authority/path[?query], in its parts as they were written.
struct Url {
  std::string scheme;     // in lower case
  std::string user;       // "name:password"; never shown or written
  std::string authority;  // host:port or bucket
  std::string path;       // from its first slash on
  std::string query;      // without '?': options of the endpoint, or a signature
};

/// The parts of a text that looks like a URL.
Url split_url(std::string_view text);

/// Whether an '@' behind the host may be the one that ends a password: one with '/' or '?' in it
/// looks like a host, a port and a path with '@'.
bool hides_password(const Url& url);

/// A text with a URL, wherever it begins, as files and messages may hold it: without
/// user:password@, and over HTTP without the query, which may be a signature; its scheme alone
/// where nobody knows what is the password. Other texts stay.
std::string without_credentials(std::string_view text);

}  // namespace dimred
