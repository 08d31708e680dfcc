#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "data/dataset.h"

namespace dimred::data {

/// Where Debian's package dataset-fashion-mnist puts its four files.
std::filesystem::path default_fashion_mnist_folder();

/// IDX images + labels (MNIST, Fashion-MNIST), resident in memory. `folder` holds
/// {train,t10k}-{images-idx3,labels-idx1}-ubyte, plain or .gz (plain wins); `train` picks the pair.
/// Checked before anything is allocated: magic, dimensions >= 1, their product (overflow-safe) and
/// that the file can hold it (plain: exact size; gz: deflate's largest ratio). Then: exactly the
/// announced bytes and, for gz, its checksum; equal counts; labels < `classes`. Never reads beyond
/// one byte past what is announced. Throws std::invalid_argument when the folder or a file is
/// missing (names it and the Debian package), std::runtime_error("[idx] file: rule, received ...")
/// when damaged. Format: http://yann.lecun.com/exdb/mnist/.
std::unique_ptr<Dataset> open_idx(const std::filesystem::path& folder,
                                  bool train,
                                  std::int64_t classes = 10);

}  // namespace dimred::data
