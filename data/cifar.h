#pragma once

#include <filesystem>
#include <memory>

#include "data/dataset.h"

namespace dimred::data {

/// CIFAR-10 or CIFAR-100 in their binary form, resident in memory: 3 x 32 x 32 planes. `folder`
/// (or its cifar-10-batches-bin, cifar-100-binary) holds data_batch_1.bin to data_batch_5.bin and
/// test_batch.bin (records of a label and 3072 bytes), or train.bin and test.bin (a coarse and a
/// fine label, 3072 bytes; the fine one is taken), and the names in batches.meta.txt or
/// fine_label_names.txt; without that file labels are numbers. Fewer than five batches are taken as
/// they are. Throws std::invalid_argument when no file is there, std::runtime_error("[cifar] file,
/// offset: rule") when one is damaged. Format: https://www.cs.toronto.edu/~kriz/cifar.html.
std::unique_ptr<Dataset> open_cifar(const std::filesystem::path& folder, bool train);

/// Whether open_cifar finds its files there.
bool is_cifar(const std::filesystem::path& folder);

}  // namespace dimred::data
