#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/npy.h"
#include "layout/layout.h"
#include "layout/shard.h"
#include "tests/pca/matrices.h"

// Network layouts and matrix files for the tests of load_basis, and a matrix as it should lie in
// memory.
namespace dimred::pca::testing {

/// 4-D weights in both memory formats, a matrix, and sizes that no 16 divides.
layout::Layout model(bool channels_last = true);

/// All columns of it.
layout::Shard whole(const layout::Layout& layout);

/// Row by row what layout::file_to_memory makes of it.
std::vector<float> in_memory_order(const layout::Layout& layout, const Matrix& rows);

/// A k x M .npy as NumPy would write it.
template <class T>
void write_npy(const std::filesystem::path& path, const Matrix& rows, bool fortran) {
  std::string header = checkpoints::npy_header_bytes({rows.rows(), rows.cols()});
  if (sizeof(T) == 8) header.replace(header.find("<f4"), 3, "<f8");
  if (fortran) header.replace(header.find("False"), 5, "True ");
  std::vector<T> values(static_cast<std::size_t>(rows.size()));
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    for (Eigen::Index j = 0; j < rows.cols(); ++j) {
      values[static_cast<std::size_t>(fortran ? j * rows.rows() + i : i * rows.cols() + j)] =
          static_cast<T>(rows(i, j));
    }
  }
  put_file(path,
           header + std::string(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(T)));
}

/// A fitted matrix with its sidecar, for 60,000 columns: 4 digest blocks.
struct Fitted {
  TemporaryFolder folder;
  layout::Layout layout;
  std::filesystem::path npy = folder / "p.npy";

  Fitted() {
    std::vector<layout::Parameter> parameters(3);
    parameters[0].name = "a";
    parameters[0].shape = {100, 4, 5, 5};
    parameters[0].memory_format = layout::MemoryFormat::channels_last;
    parameters[1].name = "b";
    parameters[1].shape = {49990};
    parameters[2].name = "c";
    parameters[2].shape = {10};
    layout = layout::make_layout(parameters);
    const auto source = source_of(random_matrix(9, 60000, 3));
    fit(*source, options_of(5), npy);
  }
};

}  // namespace dimred::pca::testing
