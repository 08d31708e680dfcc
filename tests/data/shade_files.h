#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/decode.h"
#include "data/encode.h"
#include "tests/tools/temporary_folder.h"

// Image files of one shade, by which a sample is known again.
namespace dimred::data {

namespace fs = std::filesystem;

inline std::string image(int shade,
                         std::int64_t height = 4,
                         std::int64_t width = 5,
                         bool png = true) {
  const ImageShape shape{3, height, width};
  const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(shape.size()),
                                         static_cast<std::uint8_t>(shade));
  return png ? to_png(pixels, shape) : to_jpeg(pixels, shape, 95);
}

inline void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  put_file(path, text);
}

inline int shade_of(const Dataset& dataset, std::int64_t index) {
  std::vector<std::uint8_t> scratch;
  const auto sample = dataset.read(index, scratch);
  return decoded(sample, 3).pixels.front();
}

inline std::int64_t label_of(const Dataset& dataset, std::int64_t index) {
  std::vector<std::uint8_t> scratch;
  return dataset.read(index, scratch).label;
}

}  // namespace dimred::data
