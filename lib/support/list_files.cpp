#include "support/list_files.h"

#include <fnmatch.h>
#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "support/errors.h"
#include "support/text.h"

namespace dimred {
namespace {

namespace fs = std::filesystem;

/// Takes the leading run of digits (or one other character) off `text`; a number loses its zeros.
std::string_view take_token(std::string_view& text, bool& number) {
  number = is_digit(text.front());
  std::size_t length = 1;
  while (number && length < text.size() && is_digit(text[length])) ++length;
  std::string_view token = text.substr(0, length);
  text.remove_prefix(length);
  while (number && token.size() > 1 && token.front() == '0') token.remove_prefix(1);
  return token;
}

/// -1, 0, 1 by value.
int compare_natural(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    bool a_number = false;
    bool b_number = false;
    const std::string_view x = take_token(a, a_number);
    const std::string_view y = take_token(b, b_number);
    if (a_number && b_number && x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
    const int order = x.compare(y);
    if (order != 0) return order < 0 ? -1 : 1;
  }
  return b.empty() - a.empty();
}

/// The pattern from the root on, links followed in the folders before its first part that is one.
fs::path resolved(const fs::path& pattern) {
  fs::path folder, rest;
  for (const auto& part : fs::absolute(pattern)) {
    if (part.empty()) continue;  // behind a slash at the end
    const bool plain = part.string().find_first_of("*?[{") == std::string::npos;
    (rest.empty() && plain ? folder : rest) /= part;
  }
  return fs::weakly_canonical(folder) / rest;
}

}  // namespace

bool is_unfinished(const fs::path& path) { return path.extension() == ".tmp"; }

bool natural_less(const std::string& a, const std::string& b) {
  const int order = compare_natural(a, b);
  return order != 0 ? order < 0 : a < b;
}

void sort_naturally(std::vector<fs::path>& files) { std::ranges::sort(files, natural_less); }

std::vector<fs::path> list_files(const fs::path& folder,
                                 const std::vector<std::string>& extensions) {
  require(fs::is_directory(folder), "[files] needs an existing folder, received '{}'", folder);
  std::vector<fs::path> files;
  for (const auto& item : fs::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    const bool wanted = std::ranges::any_of(
        extensions, [&](const std::string& extension) { return name.ends_with(extension); });
    // "._a.pt" is what macOS keeps beside a.pt on other file systems.
    if (name.starts_with('.') || is_unfinished(item)) continue;
    if (wanted && item.is_regular_file()) files.push_back(item.path());
  }
  sort_naturally(files);
  return files;
}

bool is_pattern(const fs::path& path) {
  return path.string().find_first_of("*?[{") != std::string::npos && !fs::exists(path);
}

std::vector<fs::path> paths_matching(const fs::path& pattern, std::string_view scope) {
  const auto is_fault = [](const char*, int error) -> int {  // else glob() passes over the folder
    return error != ENOENT && error != ENOTDIR && error != ELOOP;
  };
  glob_t found{};
  const int code = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_BRACE, is_fault, &found);
  std::vector<fs::path> paths;
  if (code == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  require_environment(code == 0 || code == GLOB_NOMATCH,
                      "[{}] cannot read the folders of the pattern {}",
                      scope,
                      pattern);
  std::ranges::sort(
      paths, {}, [](const auto& path) -> const std::string& { return path.native(); });
  paths.erase(std::ranges::unique(paths).begin(), paths.end());  // {a,a*}
  return paths;
}

bool would_match(const fs::path& pattern, const fs::path& path) {
  auto simple = pattern.string();
  for (auto open = simple.find('{'); open != std::string::npos; open = simple.find('{', open + 1)) {
    const auto close = simple.find('}', open);
    if (close != std::string::npos) simple.replace(open, close + 1 - open, "*");
  }
  const auto whole = fs::weakly_canonical(path);
  return ::fnmatch(resolved(simple).c_str(), whole.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
}

}  // namespace dimred
