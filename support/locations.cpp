#include "support/locations.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "support/errors.h"

namespace dimred {
namespace {

Locate& locate_now() {
  static Locate function;
  return function;
}

/// URL -> local path, and the other way with what may be shown.
std::map<std::string, std::filesystem::path>& located() {
  static std::map<std::string, std::filesystem::path> paths;
  return paths;
}

std::map<std::filesystem::path, std::string>& shown() {
  static std::map<std::filesystem::path, std::string> urls;
  return urls;
}

}  // namespace

void set_locate(Locate locate) { locate_now() = std::move(locate); }

bool looks_like_url(std::string_view text) {
  const auto colon = text.find("://");
  return colon != std::string_view::npos && colon > 1 &&
         std::ranges::all_of(text.substr(0, colon), [](unsigned char letter) {
           return std::isalnum(letter) != 0 || letter == '+' || letter == '-' || letter == '.';
         });
}

std::string without_credentials(std::string_view text) {
  std::string result(text);
  if (!looks_like_url(text)) return result;
  const auto begin = result.find("://") + 3;
  if (const auto at = result.find('@', begin); at < result.find_first_of("/?", begin))
    result.erase(begin, at + 1 - begin);
  if (result.starts_with("http")) result.resize(std::min(result.find('?'), result.size()));
  return result;
}

std::string location_text(const std::filesystem::path& path) {
  const auto url = shown().find(path);
  return url == shown().end() ? without_credentials(path.string()) : url->second;
}

void locate(std::vector<Option>& rows, const OptionTable& table) {
  for (auto& row : rows) {
    const bool names = row.kind == OptionKind::path || row.kind == OptionKind::text;
    if (!names || !looks_like_url(row.text)) continue;
    // Set to something else since then.
    if (row.kind == OptionKind::path && row.show() != toml_string(without_credentials(row.text)))
      continue;
    const auto key = row.name + ' ' + row.text;
    if (!located().contains(key)) {
      if (!locate_now()) {
        if (row.kind == OptionKind::text) continue;
        throw std::invalid_argument(concat(
            "--", row.name, ": cannot be a URL here, received ", without_credentials(row.text)));
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
