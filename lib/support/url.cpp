#include "support/url.h"

#include <algorithm>
#include <cctype>

#include "support/formatted.h"

namespace dimred {
namespace {

bool may_be_in_scheme(unsigned char letter) {
  return std::isalnum(letter) != 0 || letter == '+' || letter == '-' || letter == '.';
}

}  // namespace

bool looks_like_url(std::string_view text) {
  const auto colon = text.find("://");
  return colon != std::string_view::npos && colon > 1 &&
         std::isalpha(static_cast<unsigned char>(text.front())) != 0 &&
         std::ranges::all_of(text.substr(0, colon), may_be_in_scheme);
}

Url split_url(std::string_view text) {
  Url parts;
  const auto colon = text.find("://");
  for (const unsigned char letter : text.substr(0, colon))
    parts.scheme += static_cast<char>(std::tolower(letter));
  auto rest = text.substr(colon + 3);
  // The last of several '@' ends the password.
  const auto before_path = rest.substr(0, rest.find_first_of("/?"));
  if (const auto at = before_path.rfind('@'); at != std::string_view::npos) {
    parts.user = rest.substr(0, at);
    rest.remove_prefix(at + 1);
  }
  if (const auto mark = rest.find('?'); mark != std::string_view::npos) {
    parts.query = rest.substr(mark + 1);
    rest = rest.substr(0, mark);
  }
  const auto slash = std::min(rest.find('/'), rest.size());
  parts.authority = rest.substr(0, slash);
  parts.path = rest.substr(slash);
  return parts;
}

bool hides_password(const Url& url) {
  if ((url.path + url.query).find('@') == std::string::npos) return false;
  if (!url.user.empty()) return true;             // one that held an '@' as well
  const auto bracket = url.authority.rfind(']');  // of an IPv6 address
  const auto port = url.authority.find(':', bracket == std::string::npos ? 0 : bracket);
  if (port == std::string::npos) return false;
  const bool number = std::ranges::all_of(url.authority.substr(port + 1),
                                          [](unsigned char c) { return std::isdigit(c) != 0; });
  // Only where nobody writes a password is NAME:DIGITS a host with its port for sure.
  const bool address = url.scheme == "hdfs" || bracket != std::string::npos;
  return !number || !address;
}

std::string without_credentials(std::string_view text) {
  const auto colon = text.find("://");
  if (colon == std::string_view::npos) return std::string(text);
  auto begin = colon;
  while (begin > 0 && may_be_in_scheme(text[begin - 1])) --begin;
  const auto before = text.substr(0, begin);
  const auto parts = split_url(text.substr(begin));
  if (hides_password(parts)) return formatted("{}{}://...", before, parts.scheme);
  const bool open = !parts.query.empty() && !parts.scheme.starts_with("http");
  return formatted("{}{}://{}{}{}",
                   before,
                   parts.scheme,
                   parts.authority,
                   parts.path,
                   open ? '?' + parts.query : "");
}

}  // namespace dimred
