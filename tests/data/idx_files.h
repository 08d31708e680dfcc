#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/tools/temporary_folder.h"

// Writes IDX files, sound or damaged, for the tests of data/.
namespace dimred::data {

using Content = std::vector<std::uint8_t>;

inline Content idx_bytes(const std::vector<std::uint32_t>& dimensions, const Content& data) {
  Content bytes = {0, 0, 8, static_cast<std::uint8_t>(dimensions.size())};
  for (const auto dimension : dimensions) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<std::uint8_t>(dimension >> shift));
    }
  }
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

inline void write_file(const std::filesystem::path& path, const Content& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

inline void write_gz(const std::filesystem::path& path, const Content& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  const auto size = static_cast<unsigned>(bytes.size());
  const bool written =
      file != nullptr && gzwrite(file, bytes.data(), size) == static_cast<int>(size);
  if (!written || gzclose(file) != Z_OK) throw std::runtime_error("cannot write " + path.string());
}

inline Content read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// The contents of a sound little set: 5 images of 2 x 3, pixel i = 7 i mod 256, labels 3 1 4 1 5.
inline Content little_pixels() {
  Content pixels(30);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(7 * i);
  return pixels;
}
inline Content little_images() { return idx_bytes({5, 2, 3}, little_pixels()); }
inline Content little_labels() { return idx_bytes({5}, {3, 1, 4, 1, 5}); }

}  // namespace dimred::data
