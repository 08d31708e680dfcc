#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoints/verbs/rename.h"
#include "support/byte_progress.h"

// One checkpoint of any readable kind as safetensors, read block by block where it lies.
namespace dimred::verbs {

struct ConversionOptions {
  std::string dtype;                 // of floating tensors: F32, BF16, F16; empty: each as it is
  std::int64_t shard_size = 0;       // bytes; 0: the shards of the source
  RenameRules renames;               // none: names stay
  std::string include, exclude;      // expressions, searched in the source's names; empty: none
  std::filesystem::path adapter;     // a folder of PEFT, folded into the weights; empty: none
  std::string take;                  // raw, averaged: of a file that has both; empty: its rule
  std::int64_t threads = 0;          // 0: all cores of this process
  std::int64_t block = 65'536;       // elements read at a time
  ByteProgress* progress = nullptr;  // of the tensors that are read; null: nobody looks
};

struct ConvertReport {
  std::filesystem::path source;
  std::filesystem::path output;
  std::vector<std::string> tensors;   // written, in the order of the shards
  std::vector<std::string> excluded;  // names in the source
  std::vector<std::string> left_out;  // training state
  std::vector<std::string> folded;    // names in the source of what the adapter changed
  std::vector<std::string> cast;      // names in the source of what is written as another type
  std::vector<std::vector<std::string>> tied;                // names in the source
  std::vector<std::pair<std::string, std::string>> renamed;  // name in the source, name written
  std::vector<std::string> not_copied;                       // of the source's folder
  std::vector<std::string> remarks;
  std::size_t shards = 0;
  std::int64_t bytes_read = 0;     // of tensors
  std::int64_t bytes_written = 0;  // of shards
  double seconds = 0;
};

/// Writes `output`, which must not be there yet: a folder with safetensors, the source's side files
/// and convert.json, which says what was done; or one file, where its name ends in .safetensors.
/// Everything that headers and names say is checked before a value is read; nothing stays under the
/// final name when a value is refused. A conversion that was killed goes on by shard. Throws
/// std::invalid_argument for a caller's fault, std::runtime_error for damaged or changing files and
/// I/O errors.
ConvertReport convert(const std::filesystem::path& source,
                      const std::filesystem::path& output,
                      const ConversionOptions& options);

/// For people, a line each.
std::string describe(const ConvertReport& report);

}  // namespace dimred::verbs
