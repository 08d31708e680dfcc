#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/mapped_file.h"

namespace dimred::data {

/// A .npy file's array in C order as read-only memory.
struct MappedArray {
  /// `type` as NumPy writes it: "|u1", "<i8". Reads the file once. Throws as MappedFile and
  /// checkpoints::read_npy_header, and std::runtime_error for Fortran order.
  MappedArray(const std::filesystem::path& path, std::string_view type);

  /// "(60000, 28, 28)", for messages.
  std::string shape_text() const;

  MappedFile file;
  std::vector<std::int64_t> shape;
  Bytes data;
};

}  // namespace dimred::data
