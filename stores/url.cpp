#include "stores/url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "support/errors.h"
#include "support/locations.h"
#include "support/options.h"

namespace dimred::stores {
namespace {

constexpr std::array schemes = {"file", "http", "https", "hdfs", "s3", "gs"};

bool decodes(const Url& url) {
  return url.scheme == "file" || url.scheme == "http" || url.scheme == "https";
}

int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return -1;
}

std::string encoded(std::string_view text) {
  constexpr auto digits = "0123456789ABCDEF";
  std::string out;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) != 0 || std::string_view("-._~/").find(letter) != std::string::npos) {
      out += letter;
    } else {
      out += '%';
      out += digits[byte >> 4];
      out += digits[byte & 15];
    }
  }
  return out;
}

std::string known_schemes(const std::string& scheme) {
  const std::vector<std::string> names(schemes.begin(), schemes.end());
  if (const auto near = nearest(scheme, names)) return formatted("did you mean {}://?", *near);
  std::string text = "known:";
  for (const auto& name : names) text += formatted(" {}://", name);
  return text;
}

std::string text_of(const Url& url, const std::string& user, const std::string& query) {
  return formatted("{}://{}{}{}{}",
                   url.scheme,
                   user.empty() ? "" : user + '@',
                   url.authority,
                   url.path,
                   query.empty() ? "" : '?' + query);
}

bool is_port(std::string_view text) {
  constexpr int largest = 65535;
  int port = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9' || port > largest) return false;
    port = port * 10 + (digit - '0');
  }
  return text.empty() || (port > 0 && port <= largest);
}

/// "host", "host:port" or "[IPv6]:port"; the port may be empty, which is that of the scheme.
bool is_host(std::string_view text) {
  const bool address = text.starts_with('[');
  const auto end = address ? text.find(']') : std::min(text.find(':'), text.size());
  if (end == 0 || end == std::string_view::npos) return false;
  const auto rest = text.substr(address ? end + 1 : end);
  if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return false;
  if (!address)
    return text.substr(0, end).find_first_of(" \"<>[]\\^`{|}") == std::string_view::npos;
  const auto inner = text.substr(1, end - 1);
  in6_addr parsed{};  // without the zone
  return inet_pton(AF_INET6, std::string(inner.substr(0, inner.find('%'))).c_str(), &parsed) == 1;
}

}  // namespace

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool coded = text[i] == '%' && i + 2 < text.size() && digit_of(text[i + 1]) >= 0 &&
                       digit_of(text[i + 2]) >= 0;
    out += coded ? static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2])) : text[i];
    if (coded) i += 2;
  }
  return out;
}

Url parse_url(std::string_view text) {
  require(looks_like_url(text), "[stores] needs scheme://..., received {}", printable(text));
  auto parts = split_url(text);
  require(!parts.hides_password,
          "[stores] an '@' behind the host may end a password; a '/', '?' or '@' of a name, "
          "password or path is written %2F, %3F or %40, received {}",
          printable(text));
  Url url{.scheme = std::move(parts.scheme),
          .user = std::move(parts.user),
          .authority = std::move(parts.authority),
          .path = std::move(parts.path),
          .query = std::move(parts.query)};
  while (url.path.size() > 1 && url.path.back() == '/') url.path.pop_back();
  const auto name = shown(url);  // from here on: without what nobody may see
  require(std::ranges::find(schemes, url.scheme) != schemes.end(),
          "[stores] unknown scheme in {}; {}",
          printable(name),
          known_schemes(url.scheme));
  require(
      std::ranges::none_of(text, [](unsigned char letter) { return std::iscntrl(letter) != 0; }),
      "[stores] a URL has no control characters, received {}",
      printable(name));
  const bool local = url.scheme == "file";
  require(!local || url.authority.empty() || url.authority == "localhost",
          "[stores] file:// needs three slashes before an absolute path, received {}",
          printable(name));
  require(local || url.scheme == "hdfs" || !url.authority.empty(),
          "[stores] {}:// needs a {}, received {}",
          url.scheme,
          url.scheme.starts_with("http") ? "host" : "bucket",
          printable(name));
  const bool web = url.scheme.starts_with("http");
  require(!(web || url.scheme == "hdfs") || url.authority.empty() || is_host(url.authority),
          "[stores] needs a host, or host:port with a port of 1 to 65535 (an IPv6 address is "
          "written [::1]), received {}",
          printable(name));
  require(!web || (url.path + url.query).find(' ') == std::string::npos,
          "[stores] a space of a path is written %20, received {}",
          printable(name));
  require(
      !local || !url.path.empty(), "[stores] file:// needs a path, received {}", printable(name));
  require(!local || url.query.empty(),
          "[stores] file:// has no query (a '?' of a name is written %3F), received {}",
          printable(name));
  if (local) url.authority.clear();
  return url;
}

std::string shown(const Url& url) { return text_of(url, "", url.query.empty() ? "" : "..."); }

std::string whole(const Url& url) { return text_of(url, url.user, url.query); }

std::string identity(const Url& url) { return text_of(url, "", url.query); }

Url child(const Url& url, std::string_view name) {
  auto result = url;
  if (result.path == "/") result.path.clear();
  result.path += '/' + (decodes(url) ? encoded(name) : std::string(name));
  return result;
}

std::string last_name(const Url& url) {
  const auto path = decoded_path(url);
  const auto name = path.substr(path.rfind('/') + 1);
  return name.empty() ? url.authority : name;
}

Url parent(const Url& url) {
  auto result = url;
  const auto slash = url.path.rfind('/');
  result.path = slash == std::string::npos || slash == 0 ? "/" : url.path.substr(0, slash);
  return result;
}

std::string decoded_path(const Url& url) {
  return decodes(url) ? percent_decoded(url.path) : url.path;
}

}  // namespace dimred::stores
