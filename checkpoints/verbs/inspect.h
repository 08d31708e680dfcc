#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "checkpoints/verbs/reading.h"

namespace dimred::verbs {

struct InspectionOptions {
  bool check = false;                    // read all values, compare an index with its shards
  std::filesystem::path manifest;        // compare with this one; empty: none
  std::filesystem::path write_manifest;  // write one there; empty: none
  Reading reading;
};

struct InspectedTensor {
  std::string name;
  std::string dtype;  // as safetensors names it
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  std::string file;  // names, ", " between several
  checkpoints::Role role = checkpoints::Role::weight;
};

/// Contents of a checkpoint, and its faults.
struct Inspection {
  std::filesystem::path path;           // as a person calls it
  std::filesystem::path folder;         // that names of files are relative to
  std::string format;                   // as Checkpoint::format
  std::vector<std::string> files;       // of the weights, and their index
  std::vector<std::string> side_files;  // configuration, tokenizer and the like
  std::vector<InspectedTensor> tensors;
  std::vector<std::string> left_out;  // training state, by name
  std::int64_t parameters = 0;        // elements of weights, those at one place once
  std::vector<std::string> remarks;
  std::vector<std::string> faults;  // empty: whole, as far as was asked
  std::size_t manifest_files = 0;   // that were written to a manifest, or compared with one
  std::size_t manifest_tensors = 0;
};

/// "weight", "adapter", "buffer", "statistic", "quantised", "training state", "beside".
std::string_view role_name(checkpoints::Role role);

/// Says what one checkpoint holds: of any kind that open_checkpoint() reads, and of one part of
/// several. With `check` all values are read (check_values()), an index is held against its shards
/// (check_index()) and digests of our own files are compared. With `manifest` the digests of files
/// and tensors are compared with it; with `write_manifest` they are written there, atomically: into
/// a new file, or in the place of an earlier manifest. Damage is no exception with `check` or
/// `manifest`, but a line of `faults`. Throws std::invalid_argument for a path of no checkpoint or
/// of several, a manifest that is missing or malformed, and a place that cannot have one;
/// std::runtime_error for a damaged file without `check`, and for one that changes meanwhile.
/// Cost: headers; for `check` one read of all values, for a manifest one of all files and one of
/// all values.
Inspection inspect(const std::filesystem::path& path, const InspectionOptions& options = {});

}  // namespace dimred::verbs
