#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "merge/coefficient_file.h"
#include "merge/inputs.h"
#include "support/byte_progress.h"

// Checkpoints of any size into one: each is read once, block by block, where it lies.
namespace dimred::merge {

/// Which checkpoints make an output, and how much of each.
struct Recipe {
  CoefficientOptions coefficients;
  std::filesystem::path file;              // of coefficients, in the place of a kind; empty: none
  std::optional<GivenCoefficients> given;  // by a caller, in the place of both
  Window window;
};

struct Options {
  Recipe recipe;
  std::vector<Recipe> sweep;         // several outputs, in numbered folders; empty: `recipe` alone
  std::string dtype;                 // of sums: F32, BF16, F16; empty: each as it is
  std::int64_t shard_size = 0;       // bytes; 0: the shards of the checkpoint copied from
  std::string copy_from = "latest";  // latest, oldest, or a checkpoint's name
  bool copy_from_given = false;      // what is not summed may differ
  bool allow_different_config = false;
  std::string take;            // checkpoints::OpenOptions::take
  std::filesystem::path base;  // that a mean of adapters is folded into; empty: none
  std::int64_t threads = 0;    // 0: all cores of this process
  std::int64_t block = 65'536;
  ByteProgress* progress = nullptr;  // of what is read; null: nobody looks
};

struct InputReport {
  std::filesystem::path path;
  std::int64_t step = 0;
};

/// Coefficients of the tensors whose names match.
struct RuleReport {
  std::string pattern;
  std::vector<double> coefficients;
  std::size_t tensors = 0;  // that it decided
};

struct PartReport {
  std::filesystem::path folder;  // its output
  std::string kind;
  std::vector<std::size_t> inputs;   // of Report::inputs
  std::vector<double> coefficients;  // of these; empty where rules say more
  std::vector<RuleReport> rules;
  std::filesystem::path copied_from;
  std::vector<std::string> not_copied;  // of its folder: training state, folders, other weights
};

struct Report {
  std::vector<InputReport> inputs;  // oldest first
  std::vector<PartReport> parts;
  bool counted = false;               // the names carry no steps
  bool by_name = false;               // and one folder or pattern gives the order of the names
  std::vector<std::string> remarks;   // what was left out of the sources, and why
  std::size_t tensors = 0;            // summed and copied
  std::vector<std::string> copied;    // not summed: integers and BatchNorm's statistics
  bool statistics = false;            // some of these are BatchNorm's
  std::vector<std::string> left_out;  // training state
  std::vector<std::pair<std::size_t, std::size_t>> equal;  // inputs of the same bytes
  std::int64_t bytes_read = 0;                             // of tensors
  std::int64_t bytes_written = 0;                          // of shards
  double seconds = 0;
};

/// Writes the folder `output`, which must not be there yet: the merged weights as safetensors,
/// side files of one checkpoint, and merge.json, which says of what it was made. Everything that
/// headers, names and configurations say is checked before a byte is written; nothing stays under
/// the final name when a value is refused. A merge that was killed goes on by shard. Throws
/// std::invalid_argument for a caller's fault, std::runtime_error for damaged or changing files and
/// I/O errors.
Report merge(const std::vector<std::filesystem::path>& sources,
             const std::filesystem::path& output,
             const Options& options);

/// Report::remarks with a line for names without steps and one for each pair of equal checkpoints.
std::vector<std::string> remarks_on(const Report& report);

/// For people, a line each.
std::string describe(const Report& report);

}  // namespace dimred::merge
