#include "stores/url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <ostream>
#include <regex>

#include "support/errors.h"
#include "support/printable.h"
#include "support/suggestion.h"
#include "support/url.h"

namespace dimred::stores {
namespace {

constexpr std::array schemes = {"file", "http", "https", "hdfs", "s3", "gs", "oss"};

bool decodes(const Url& url) {
  return url.scheme == "file" || url.scheme == "http" || url.scheme == "https";
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

std::string url_text(const Url& url, const std::string& user, const std::string& query) {
  return formatted("{}://{}{}{}{}",
                   url.scheme,
                   user.empty() ? "" : user + '@',
                   url.authority,
                   url.path,
                   query.empty() ? "" : '?' + query);
}

/// "host", "host:port" or "[IPv6]:port"; the port may be empty, which is that of the scheme.
bool is_host(const std::string& text) {
  constexpr std::size_t longest = 300;  // a name has 253 letters at most, a regex has a stack
  static const std::regex host(
      R"((?:\[([^\]%]*)(?:%[^\]]*)?\]|[^: \x22<>[\]\\^`{|}]+)(?::(?:0*([1-9]\d{0,4}))?)?)");
  std::smatch part;
  if (text.size() > longest || !std::regex_match(text, part, host)) return false;
  in6_addr parsed{};  // without the zone
  return (!part[1].matched || inet_pton(AF_INET6, part[1].str().c_str(), &parsed) == 1) &&
         (!part[2].matched || std::stoi(part[2]) <= 65535);
}

/// Says where '@' may stand as %40.
std::string place_of_codes(const Url& url) {
  return decodes(url) ? ", in a path too" : "; a path cannot have an '@' here";
}

}  // namespace

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto code = text.substr(i + 1, 2);
    unsigned char byte = 0;
    const auto end = std::from_chars(code.begin(), code.end(), byte, 16).ptr;
    const bool coded = text[i] == '%' && end - code.begin() == 2;
    out += coded ? static_cast<char>(byte) : text[i];
    if (coded) i += 2;
  }
  return out;
}

Url parse_url(std::string_view text) {
  auto name = printable(text);  // what anybody may see
  const auto rule = [&](bool holds, std::string_view needs) {
    require(holds, "[stores] {}, received {}", needs, name);
  };
  rule(looks_like_url(text), "needs scheme://...");
  auto url = split_url(text);
  rule(
      !hides_password(url),
      formatted("an '@' after the host looks like the end of a password; write '/', '?' and '@' in "
                "a name or password as %2F, %3F and %40{}",
                place_of_codes(url)));
  while (url.path.size() > 1 && url.path.back() == '/') url.path.pop_back();
  name = printable(shown(url));
  const bool local = url.scheme == "file";
  const bool web = url.scheme.starts_with("http");
  require(std::ranges::find(schemes, url.scheme) != schemes.end(),
          "[stores] unknown scheme in {}; {}",
          name,
          known_schemes(url.scheme));
  rule(std::ranges::none_of(text, [](unsigned char c) { return std::iscntrl(c) != 0; }),
       "a URL must not have control characters");
  rule(!local || url.authority.empty() || url.authority == "localhost",
       "file:// needs three slashes before an absolute path");
  rule(local || url.scheme == "hdfs" || !url.authority.empty(),
       formatted("{}:// needs a {}", url.scheme, web ? "host" : "bucket"));
  constexpr std::array with_host = {"http", "https", "hdfs", "oss"};
  rule(std::ranges::count(with_host, url.scheme) == 0 || url.authority.empty() ||
           is_host(url.authority),
       "needs a host, or host:port with a port of 1 to 65535 (write an IPv6 address as [::1])");
  rule(!web || (url.path + url.query).find(' ') == std::string::npos,
       "a space in a path needs to be written as %20");
  rule(!local || !url.path.empty(), "file:// needs a path");
  constexpr std::array without_query = {"file", "oss"};
  rule(std::ranges::count(without_query, url.scheme) == 0 || url.query.empty(),
       formatted("{}:// takes no query {}",
                 url.scheme,
                 local ? "(write a '?' in a name as %3F)" : "and no '?' in a name"));
  if (local) url.authority.clear();
  return url;
}

std::string shown(const Url& url) { return url_text(url, "", url.query.empty() ? "" : "..."); }

std::string whole(const Url& url) { return url_text(url, url.user, url.query); }

std::string identity(const Url& url) { return url_text(url, "", url.query); }

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

std::ostream& dimred::operator<<(std::ostream& out, const Url& url) {
  return out << stores::shown(url);
}
