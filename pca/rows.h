#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "pca/float_file.h"
#include "pca/ranks.h"

namespace dimred::pca {

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

/// The rows of snapshots or of safetensors files, all of one kind. File i is read and verified by
/// rank i % R alone, which tells the others what it found, so that no rank parses a file that
/// nobody has verified. Throws as read_snapshot_info and read_safetensors_header.
std::vector<Row> read_rows(const std::vector<std::filesystem::path>& files, const Ranks& ranks);

}  // namespace dimred::pca
