#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "checkpoints/column_ranges.h"
#include "layout/layout.h"
#include "support/atomic_file.h"
#include "support/list_files.h"

// A snapshot is one HDF5 file: datasets `weights` [M] float32 (file order), `buffers` (float32, all
// floating buffers one after another), `counters` (int64, the integer ones), `layout` (the JSON
// text of layout::to_json), `run` (run_json, where there is one), `weights_xxh3` (uint64, of
// checkpoints/weight_digests.h), attributes epoch, step, train_loss, validation_loss, layout_hash.
// A 512-byte user block in front carries "dimred-snapshot 2\n", an XXH3-128 digest and the place of
// the weights, "weights BEGIN END\n" in bytes of the file; the digest is of that line and of all
// that follows the block, but for the weights. So it is verified before the HDF5 library sees the
// file, and the weights, by digests that it covers, where they are read. A file of version 1 has
// one digest of all that follows. Any h5py reads both. All functions may be called from several
// threads; only the library's own calls are serialised, not reading and digesting.
namespace dimred::checkpoints {

struct Snapshot {
  std::vector<float> weights;          // [M], file order
  std::vector<float> buffers;          // floating buffers, file order
  std::vector<std::int64_t> counters;  // integer buffers
  std::int64_t epoch = 0;
  std::int64_t step = 0;                                         // optimiser steps since the start
  double train_loss = std::numeric_limits<double>::quiet_NaN();  // running mean, NaN: not measured
  double validation_loss = std::numeric_limits<double>::quiet_NaN();  // NaN: not measured
  std::string layout_json;
  std::string layout_hash;
  std::string run_json;  // what later use of the weights depends on; empty: not known
};

/// The contents of a file beside its weights, and the place of these: columns are read without the
/// library.
struct SnapshotInfo {
  std::int64_t parameters = 0;  // M
  std::int64_t buffer_count = 0;
  std::int64_t counter_count = 0;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  double train_loss = 0;
  double validation_loss = 0;
  // Bytes from the start of the file; float32, float32 and int64, each contiguous.
  std::int64_t weights_offset = 0, buffers_offset = 0, counters_offset = 0;
  std::int64_t digests_offset =
      0;  // of the weights' digests; 0: verified with the rest (version 1)
  std::string layout_json;
  std::string layout_hash;
  std::string run_json;
};

/// Writes durably (AtomicFile); the same snapshot gives the same bytes. Needs two more copies
/// of the weights while it works. Throws std::invalid_argument if a weight or buffer is not finite
/// or a loss is infinite (nothing non-finite reaches a snapshot), std::runtime_error on I/O errors.
/// Returns the digest in the file's head.
std::string write_snapshot(const std::filesystem::path& path, const Snapshot& snapshot);

/// Verifies all of the file. Throws std::invalid_argument when it is missing or no snapshot,
/// std::runtime_error when it is damaged, which weights and buffers of another program's file that
/// are not finite count as. `choose` says which of the weights are kept, which reads these once
/// more; without it, all.
using WeightChoice = std::function<ColumnRanges(const SnapshotInfo& info)>;
Snapshot read_snapshot(const std::filesystem::path& path, const WeightChoice& choose = nullptr);

/// Verifies all but the weights, which it does not read, where they have digests of their own: who
/// reads columns does so by read_digested, and checks that they are finite, as pca::fit does.
/// Throws as read_snapshot.
SnapshotInfo read_snapshot_info(const std::filesystem::path& path);

/// Reads a file that is open, which is opened no second time.
SnapshotInfo read_snapshot_info(const InputFile& file);

/// read_snapshot_info(), with the weights verified, too.
SnapshotInfo verify_snapshot(const std::filesystem::path& path);

/// The parameters that were frozen when the snapshot with this table was recorded
/// (dimred.SnapshotRecorder's trainable_only): their names, as it has none of their values. Throws
/// std::runtime_error for a table that is no JSON.
std::vector<std::string> missing_parameters(const std::string& layout_json);

/// The further names of tied parameters, each with the name under which the snapshot, or the frozen
/// part, has the values; none in snapshots of earlier revisions.
std::map<std::string, std::string> tied_parameters(const std::string& layout_json);

/// The digest in the file's head, not verified. Throws as is_snapshot does, and std::runtime_error
/// when the file has none or another length than HDF5 wrote.
std::string snapshot_digest(const std::filesystem::path& path);
std::string snapshot_digest(const InputFile& file);

/// True when the file starts as a snapshot of ours does. Throws std::invalid_argument when missing.
bool is_snapshot(const std::filesystem::path& path);
bool is_snapshot(const InputFile& file);

/// Snapshots that stay open after a first read, by their paths.
using OpenSnapshots = std::map<std::filesystem::path, InputFile>;

struct SavedSnapshot {
  std::filesystem::path path;
  std::string digest;  // in its head
};

/// A folder of snapshots, named snapshot_<step, 8 digits>.h5. One writer at a time.
class SnapshotStore {
 public:
  /// keep >= 1: how many stay; the oldest are deleted after the new one is durable.
  SnapshotStore(std::filesystem::path folder, std::int64_t keep);
  /// Also creates the folder, and deletes the temporary files that a killed run left.
  SavedSnapshot save(const Snapshot& snapshot) const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  std::int64_t keep_;
};

}  // namespace dimred::checkpoints
