#pragma once

#include <filesystem>
#include <memory>

#include "pca/source.h"

namespace dimred::pca {

/// A 2-D .npy as rows of float32 (float64 is rounded). `scope` starts the error texts.
/// Throws as checkpoints::read_npy_header, and std::invalid_argument unless it has 2 dimensions,
/// both at least 1.
std::unique_ptr<SnapshotSource> npy_matrix(const std::filesystem::path& path,
                                           std::string_view scope);

}  // namespace dimred::pca
