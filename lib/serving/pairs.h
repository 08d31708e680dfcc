#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "serving/image_source.h"
#include "serving/verification.h"

namespace dimred::serving {

struct PairList {
  std::vector<ImageSource> images;
  std::vector<Pair> pairs;             // places in `images`
  std::shared_ptr<const void> memory;  // behind their bytes
};

/// Reads FILE.bin, a pickle (protocol 2 to 5, Python 2's too) of (images, same): a list of 2n JPEG
/// or PNG files as bytes, pair i the images 2i and 2i + 1, and a list of n booleans, or of 0 and 1;
/// nothing in it is ever run. Any other file is a list, a line "path_a path_b 0" or 1 (the same)
/// for each pair: fields between tabs in a line that has one, else between blanks; paths from the
/// list's folder; empty lines count nothing. Throws std::runtime_error with file and line or byte
/// for anything else, and for a path in a list that is no file.
PairList read_pairs(const std::filesystem::path& file);

}  // namespace dimred::serving
