#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layout/layout.h"
#include "pca/ranks.h"
#include "pca/source.h"
#include "support/atomic_file.h"

namespace dimred::pca {

/// Columns [begin, begin + size) of a row lie contiguous at byte `offset` of its file.
struct FloatRun {
  std::string dtype;  // as checkpoints::read_floats takes it
  std::int64_t begin = 0;
  std::int64_t size = 0;
  std::int64_t offset = 0;
};

/// One row of W: a file, where its values lie in it, and the table that names them.
struct Row {
  std::filesystem::path path;
  std::vector<FloatRun> runs;
  std::string layout_hash;
  std::string layout_json;
  std::int64_t columns = 0;
  std::int64_t bytes_verified = 0;  // by this rank
  std::int64_t epoch = -1;          // -1: the file carries none
};

/// BatchNorm's statistics are floats in a state_dict, but no weights.
bool is_running_statistic(std::string_view name);

/// Gives the row the layout of its tensors.
void set_layout(Row& row, const std::vector<layout::Parameter>& parameters);

/// What is known of all rows together. Throws std::invalid_argument when two have another layout or
/// size (names both and the first entry that differs).
SourceInfo info_of(const std::vector<Row>& rows);

/// Columns [begin, begin + out.size()) of a row that `runs` (sorted, gapless) make up, as float32
/// (checkpoints/float_formats.h: what is not finite as float32 is for fit to refuse).
void read_runs(const InputFile& file,
               const std::vector<FloatRun>& runs,
               std::int64_t begin,
               std::span<float> out);

/// The rows of snapshots or of safetensors files, all of one kind. File i is read and verified by
/// rank i % R alone, which tells the others what it found, so that no rank parses a file that
/// nobody has verified. Throws as read_snapshot_info and read_safetensors_header.
std::vector<Row> read_rows(const std::vector<std::filesystem::path>& files, const Ranks& ranks);

}  // namespace dimred::pca
