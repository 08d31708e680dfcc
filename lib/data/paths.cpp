#include "data/paths.h"

#include <glob.h>

#include <algorithm>

#include "support/errors.h"
#include "support/option_values.h"

namespace dimred::data {

namespace fs = std::filesystem;

bool is_pattern(const fs::path& path) {
  return path.string().find_first_of("*?[{") != std::string::npos && !fs::exists(path);
}

std::vector<fs::path> matches(const fs::path& pattern, const char* scope) {
  glob_t found{};
  const int code = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_BRACE, nullptr, &found);
  std::vector<fs::path> paths;
  if (code == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  require_environment(code == 0 || code == GLOB_NOMATCH,
                      "[{}] cannot look through the folders of {}",
                      scope,
                      pattern);
  std::ranges::sort(
      paths, {}, [](const auto& path) -> const std::string& { return path.native(); });
  return paths;
}

}  // namespace dimred::data
