#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pca/snapshot_source.h"
#include "support/communicator.h"

namespace dimred::pca {

/// The rows of `source`, which must outlive it, that lie in `range`, in order. Throws
/// std::invalid_argument for a range that makes no sense or holds no row (says which epochs there
/// are).
std::unique_ptr<SnapshotSource> selected(const SnapshotSource& source, const SnapshotRange& range);

/// Whether snapshots may be of several runs: those of a mean may, and then a remark says how many
/// are of each; those of a trajectory may not.
enum class Runs { one, several };

/// The snapshots of a folder, run, list or pattern (checkpoints/series.h), by their steps where
/// their names have some, those of a list in its order; or the rows of one n x M .npy (C or Fortran
/// order, float32 or float64). Weight files (PyTorch's, MindSpore's, safetensors, whole or in
/// shards that an index names) give the weights in file order (checkpoints/weight_names.h); the
/// sidecar says which order, and load_basis finds each by its name. Digests are verified here, in
/// parallel; with several ranks, each verifies every R-th file of rank 0's list, and what one of
/// them throws, all throw. Those of the values of snapshots are verified by whoever reads these.
/// Throws as checkpoints::members, std::invalid_argument when empty, mixed, of different layouts
/// (names the file and the first entry that differs), std::runtime_error when a file is damaged.
std::unique_ptr<SnapshotSource> open_source(const std::filesystem::path& path,
                                            Communicator& communicator = alone(),
                                            Runs runs = Runs::one);

/// open_source of an explicit list of snapshots, weight files or checkpoint folders, the same on
/// every rank.
std::unique_ptr<SnapshotSource> open_files(const std::vector<std::filesystem::path>& files,
                                           Communicator& communicator = alone(),
                                           Runs runs = Runs::one);

/// The rows of a 2-D .npy. `place` starts the error texts.
/// Throws as checkpoints::read_npy_header, and std::invalid_argument unless it has 2 dimensions,
/// both at least 1.
std::unique_ptr<SnapshotSource> npy_matrix(const std::filesystem::path& path,
                                           std::string_view place);

/// checkpoints::set_default_python() for the readers in this shared library, which are copies of
/// its own.
void set_default_python(const std::string& program);

}  // namespace dimred::pca
