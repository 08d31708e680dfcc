#include "serving/find_images.h"

#include <algorithm>

#include "data/image_files.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/printable.h"

namespace dimred::serving {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator item(folder), end; item != end; ++item) {
    const auto name = item->path().filename().string();
    if (data::is_left_out(name)) {
      item.disable_recursion_pending();
    } else if (item->is_regular_file() && data::is_image_name(name)) {
      files.push_back(item->path());
    }
  }
  std::ranges::sort(files);
  return files;
}

std::vector<fs::path> matches(const std::string& pattern) {
  auto files = paths_matching(pattern, "predict");
  std::erase_if(files, [](const auto& file) { return !fs::is_regular_file(file); });
  return files;
}

}  // namespace

std::vector<fs::path> find_images(const std::vector<std::string>& arguments) {
  std::vector<fs::path> images;
  for (const auto& argument : arguments) {
    std::vector<fs::path> found;
    if (fs::is_directory(argument)) {
      found = below(argument);
    } else if (fs::exists(argument)) {
      found = {argument};
    } else if (is_pattern(argument)) {
      found = matches(argument);
    }
    require(!found.empty(),
            "[predict] needs an image, a folder with images or a pattern that files match, "
            "received {}",
            printable(argument));
    images.insert(images.end(), found.begin(), found.end());
  }
  return images;
}

}  // namespace dimred::serving
