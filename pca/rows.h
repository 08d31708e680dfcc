#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoints/runs.h"
#include "checkpoints/series.h"
#include "checkpoints/stored_tensor.h"
#include "layout/layout.h"
#include "pca/snapshot_source.h"
#include "support/atomic_file.h"
#include "support/communicator.h"
#include "support/file_state.h"

namespace dimred::pca {

/// Columns [begin, begin + size) of a row: the elements of one tensor, or all of a snapshot.
struct FloatRun {
  std::string dtype;  // as checkpoints::read_floats takes it
  std::int64_t begin = 0;
  std::int64_t size = 0;
  std::vector<checkpoints::StoredBox> boxes;  // in the row's files
  std::int64_t digests = 0;  // where its digests begin (checkpoints/weight_digests.h); 0: none
};

/// One row of W.
struct SnapshotRow {
  SourceInfo info;  // of this row alone, `rows` unset; its name is that of the one file, or of the
                    // index of several
  std::vector<FloatRun> runs;  // where its values lie in info.files; none where they are in memory
  FileGuard guard;             // of the files, where this rank has verified them
  checkpoints::MemberFacts facts;  // under the row's name; of values in memory none
  std::vector<InputFile> open;     // the files from their first byte on, where they stay open
  std::map<std::string, std::string> codes;  // digests, by name, of integers that may be quantised
                                             // weights
};

/// Throws std::invalid_argument where integers that may be quantised weights differ between rows,
/// or some rows lack them: they would change without being a part of any row.
void require_same_codes(const std::vector<SnapshotRow>& rows);

/// Gives the description of a row the layout of its tensors.
void set_layout(SourceInfo& row, const std::vector<layout::Parameter>& parameters);

/// Facts about all rows together. Throws std::invalid_argument when two have another layout or size
/// (names both and the first entry that differs).
SourceInfo info_of(const std::vector<SnapshotRow>& rows);

/// Columns [begin, begin + out.size()) of a row that `runs` (sorted, gapless) make up, as float32
/// (checkpoints/float_formats.h: what is not finite as float32 is for fit to refuse) or as float64.
/// Runs that have digests are verified: throws as read_digested.
template <class Value>
void read_runs(std::span<const InputFile> files,
               const std::vector<FloatRun>& runs,
               std::int64_t begin,
               std::span<Value> out);

/// The rows of snapshots or of weight files (checkpoints/tensor_table.h), or of shards that a JSON
/// index names as Hugging Face's do. File i is verified by rank i % R alone, which tells the others
/// its findings, so that no rank parses an unverified file: all of it, but for the values of a
/// snapshot, which read_runs verifies. The first snapshots stay open, as many as the process may
/// have; those of `files` that are open already move to their rows. Throws as read_snapshot_info
/// and read_tensor_table.
std::vector<SnapshotRow> read_rows(checkpoints::Series& files, Communicator& communicator);

}  // namespace dimred::pca
