#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pca/source.h"

namespace dimred::pca {

/// A tensor in memory, all of its elements `stride` elements apart.
struct MemoryTensor {
  std::string name;  // empty: the row is a plain vector, without a layout
  std::vector<std::int64_t> shape;
  std::string dtype;  // "F32", "F64", "F16" or "BF16"; another for values that are no weights
  const std::byte* data = nullptr;
  std::int64_t stride = 1;
};

/// A row of W: its tensors, one behind another.
struct MemoryRow {
  std::string name;  // for pca_mat.json and error texts
  std::vector<MemoryTensor> tensors;
};

/// Rows in memory, which must outlive the source; they are read where they lie. As of a file,
/// what is no weight by its name is left out. Throws
/// std::invalid_argument without rows, for a row without values, complex weights, another type, and
/// as open_source for rows of different layouts.
std::unique_ptr<SnapshotSource> memory_source(std::vector<MemoryRow> rows);

}  // namespace dimred::pca
