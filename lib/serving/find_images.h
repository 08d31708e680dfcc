#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dimred::serving {

/// The image files that each argument means, in the arguments' order: a file, or a link without
/// one, is itself, whatever its name; a folder all files and such links in it and below whose names
/// end as an image's of any format (.png, .jpe, .webp), by path; a pattern with * ? [] what matches
/// and is no folder, by path. Throws std::invalid_argument for an argument that means none.
std::vector<std::filesystem::path> find_images(const std::vector<std::string>& arguments);

}  // namespace dimred::serving
