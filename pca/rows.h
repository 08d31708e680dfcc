#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "pca/ranks.h"
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
