#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/npy.h"
#include "support/binary.h"
#include "support/errors.h"
#include "support/mapped_file.h"

namespace dimred::data {

/// A .npy file's array in C order as read-only memory.
struct MappedArray {
  /// `type` as NumPy writes it: "|u1", "<i8". Reads the file once. Throws as MappedFile and
  /// checkpoints::read_npy_header, and std::runtime_error for Fortran order.
  MappedArray(const std::filesystem::path& path, std::string_view type) : file(path) {
    const auto header = checkpoints::read_npy_header(path, {type});
    require_environment(!header.fortran_order || header.shape.size() < 2,
                        "[npy] {}: needs an array in C order, received one in Fortran order; "
                        "convert the array with numpy.ascontiguousarray",
                        path);
    shape = header.shape;
    ByteReader bytes(file.bytes(), "npy");
    bytes.take(header.data_offset);
    data = bytes.take(bytes.left());
    file.fetch(data);
  }

  /// "(60000, 28, 28)", for messages.
  std::string shape_text() const { return checkpoints::npy_shape_text(shape); }

  MappedFile file;
  std::vector<std::int64_t> shape;
  Bytes data;
};

}  // namespace dimred::data
