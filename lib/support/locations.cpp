#include "support/locations.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "support/errors.h"

namespace dimred {
namespace {

namespace fs = std::filesystem;

Locate& locate_now() {
  static Locate function;
  return function;
}

/// URL -> local path, and the other way with what may be shown.
std::map<std::string, fs::path>& located() {
  static std::map<std::string, fs::path> paths;
  return paths;
}

std::map<fs::path, std::string>& shown() {
  static std::map<fs::path, std::string> urls;
  return urls;
}

bool may_be_in_scheme(unsigned char letter) {
  return std::isalnum(letter) != 0 || letter == '+' || letter == '-' || letter == '.';
}

}  // namespace

void set_locate(Locate locate) { locate_now() = std::move(locate); }

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

std::string location_text(const fs::path& path) {
  const auto url = shown().find(path);
  return url == shown().end() ? without_credentials(path.string()) : url->second;
}

void locate(std::vector<Option>& rows, const OptionTable& table) {
  for (auto& row : rows) {
    const bool names = row.kind == OptionKind::path || row.kind == OptionKind::text;
    if (!names || row.waits_for_adoption || !looks_like_url(row.text)) continue;
    // Set to something else since then.
    if (row.kind == OptionKind::path && row.show() != toml_string(without_credentials(row.text)))
      continue;
    const auto key = row.name + ' ' + row.text;
    if (!located().contains(key)) {
      if (!locate_now()) {
        if (row.kind == OptionKind::text) continue;
        refuse("--{}: cannot be a URL here, received {}", row.name, without_credentials(row.text));
      }
      const auto path = locate_now()(row, table);
      if (!path) continue;
      located()[key] = *path;
      shown()[*path] = without_credentials(row.text);
    }
    row.assign(located()[key].string());
  }
}

}  // namespace dimred
