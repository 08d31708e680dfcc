#include "serving/find_images.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "data/image_files.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::serving {
namespace {

namespace fs = std::filesystem;

/// Returns whether a file's name ends as an image's of any format. Images that dimred cannot read,
/// and links without a file, count as failed, so that no image of the folder is missing silently.
bool is_named_as_image(std::string_view name) {
  constexpr std::array<std::string_view, 15> others{".avif",
                                                    ".bmp",
                                                    ".dcm",
                                                    ".gif",
                                                    ".heic",
                                                    ".heif",
                                                    ".jfif",
                                                    ".jp2",
                                                    ".jpe",
                                                    ".jxl",
                                                    ".pgm",
                                                    ".ppm",
                                                    ".tif",
                                                    ".tiff",
                                                    ".webp"};
  const auto ending = lower_case(fs::path(name).extension().string());
  return data::is_image_name(name) || std::ranges::find(others, ending) != others.end();
}

std::vector<fs::path> below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator item(folder), end; item != end; ++item) {
    const auto name = item->path().filename().string();
    if (data::is_left_out(name)) {
      item.disable_recursion_pending();
    } else if (std::error_code unknown; is_named_as_image(name) && !item->is_directory(unknown)) {
      files.push_back(item->path());
    }
  }
  std::ranges::sort(files);
  return files;
}

std::vector<fs::path> matches(const std::string& pattern) {
  auto files = paths_matching(pattern, "predict");
  std::erase_if(files, [](const auto& file) { return fs::is_directory(file); });
  return files;
}

}  // namespace

std::vector<fs::path> find_images(const std::vector<std::string>& arguments) {
  std::vector<fs::path> images;
  for (const auto& argument : arguments) {
    std::vector<fs::path> found;
    if (fs::is_directory(argument)) {
      found = below(argument);
    } else if (fs::exists(argument) || fs::is_symlink(argument)) {
      found = {argument};
    } else if (is_pattern(argument)) {
      found = matches(argument);
    }
    require(!found.empty(),
            "[predict] needs an image, a folder with images or a pattern that matches files, "
            "received {}",
            printable(argument));
    images.insert(images.end(), found.begin(), found.end());
  }
  return images;
}

}  // namespace dimred::serving
