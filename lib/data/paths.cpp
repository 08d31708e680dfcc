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

const std::vector<std::string>& split_names(bool train) {
  static const std::vector<std::string> of_train = {"train"};
  static const std::vector<std::string> of_test = {
      "test", "val", "validation", "validation_preprocess"};
  return train ? of_train : of_test;
}

fs::path split_folder(const fs::path& path, bool train) {
  for (const auto& name : split_names(train)) {
    if (fs::is_directory(path / name)) return path / name;
  }
  return {};
}

fs::path folder_with(const std::string& name, const fs::path& path, bool train, bool itself) {
  if (itself && fs::is_regular_file(path / name)) return path;
  const auto folder = split_folder(path, train);
  return !folder.empty() && fs::is_regular_file(folder / name) ? folder : fs::path();
}

const char* split_text(bool train) { return train ? "training" : "test"; }

}  // namespace dimred::data
