#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dimred::serving {

/// The image files that each argument means, in the arguments' order: a file is itself, whatever
/// its name; a folder all *.jpg, *.jpeg and *.png in it and below, by path; a pattern with * ? []
/// the files that match, by path. Throws std::invalid_argument for an argument that means none.
std::vector<std::filesystem::path> find_images(const std::vector<std::string>& arguments);

}  // namespace dimred::serving
