#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace dimred::data {

/// The content of one IDX file of unsigned bytes.
struct IdxArray {
  std::vector<std::uint32_t> dimensions;
  std::unique_ptr<std::uint8_t[]> bytes;
  std::size_t size = 0;  // product of dimensions
  Bytes span() const { return {bytes.get(), size}; }
};

/// Reads an IDX file of `rank` dimensions (1 to 3), plain or gz by its content. Checks before the
/// data is allocated: magic number, dimensions >= 1, their product for overflow, and the file's
/// room for it (plain: exact size; gz: deflate's largest ratio, and at most 100 times its bytes +
/// 64 MB). Then: exactly the announced bytes and, for gz, its checksum; at most one byte beyond
/// them is asked for. Throws std::runtime_error("[idx] file: rule, received ...").
IdxArray read_idx_array(const std::filesystem::path& path, std::size_t rank);

/// Folder of the four files of Debian's package dataset-fashion-mnist.
std::filesystem::path default_fashion_mnist_folder();

/// Returns whether one of MNIST's four files lies in the folder.
bool holds_idx(const std::filesystem::path& folder);

/// IDX images + labels (MNIST, Fashion-MNIST), resident in memory. `folder` holds
/// {train,t10k}-{images-idx3,labels-idx1}-ubyte, plain or .gz (plain wins); `train` picks the pair.
/// Beside read_idx_array's rules: equal counts; labels < `classes`. Throws std::invalid_argument
/// when the folder or a file is missing (names it and the Debian package). Format:
/// http://yann.lecun.com/exdb/mnist/.
std::unique_ptr<Dataset> open_idx(const std::filesystem::path& folder,
                                  bool train,
                                  std::int64_t classes = 10);

}  // namespace dimred::data
