#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/atomic_file.h"
#include "pca/fit.h"
#include "pca/passes.h"
#include "pca/sidecar.h"

namespace dimred::pca {

/// Throws std::invalid_argument when `output` does not end in .npy, its folder is missing, it is a
/// folder, it is one of the source's files, or a file that is no sidecar (whole or damaged) stands
/// in its sidecar's place.
void check_output(const std::filesystem::path& output, const SnapshotSource& source);

Sidecar sidecar_of(const SnapshotSource& source,
                   const PassPlan& plan,
                   const FitReport& report,
                   std::vector<std::string> digests,
                   std::int64_t tile_bytes);

/// Makes the matrix and its sidecar durable under their final names: old sidecar deleted, matrix
/// renamed, new sidecar renamed, so that a sidecar never stands beside another matrix. When the
/// sidecar cannot be written, the matrix is taken away again. Returns seconds spent in fsync.
double commit_output(checkpoints::AtomicFile& matrix,
                     const std::filesystem::path& output,
                     const Sidecar& sidecar);

}  // namespace dimred::pca
