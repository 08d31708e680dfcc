#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

// NumPy's .npy format, versions 1-3: read strictly (the types that are asked for, C and Fortran
// order), written as version 1, C order. Format: numpy/lib/format.py.
namespace dimred::checkpoints {

struct NpyHeader {
  std::vector<std::int64_t> shape;
  bool fortran_order = false;
  int item_bytes = 4;            // of the type: '<f4' has 4
  std::int64_t data_offset = 0;  // bytes
};

/// Checks magic, header, dtype (`types` ending in their bytes, as NumPy writes them), the product
/// of the shape for overflow, and the file's size against the announced bytes, before anything is
/// allocated. Throws std::invalid_argument when missing, std::runtime_error("[npy] file: rule,
/// received ...") otherwise.
NpyHeader read_npy_header(const std::filesystem::path& path,
                          std::initializer_list<std::string_view> types = {"<f4", "<f8"});

/// A shape as NumPy writes it: "(3, 5)", "(7,)".
std::string npy_shape_text(const std::vector<std::int64_t>& shape);

/// The bytes in front of the data of a C-order array of float32 (item_bytes = 4) or float64 (8),
/// padded to a multiple of 64.
std::string npy_header_bytes(const std::vector<std::int64_t>& shape, int item_bytes = 4);

}  // namespace dimred::checkpoints
