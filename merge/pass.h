#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoints/shard_plan.h"
#include "checkpoints/shard_writer.h"
#include "merge/coefficient_file.h"
#include "merge/inputs.h"
#include "support/byte_progress.h"

namespace dimred::merge {

/// Adds to the sums of a tensor's elements from `first` on.
using Addend = std::function<void(std::int64_t first, std::span<double> sums)>;

/// Fills in the elements of a tensor that is not summed, as its file has them, from `first` on.
using Replacement = std::function<void(std::int64_t first, std::span<std::byte> stored)>;

/// One output of a merge.
struct Part {
  std::string kind;                               // for people
  std::filesystem::path folder;                   // within the output; empty: the output itself
  std::vector<std::size_t> inputs;                // of which it is the sum, ascending
  Coefficients coefficients;                      // of these, where no rules are given
  std::vector<CoefficientRule> rules;             // of tensors by their names
  std::vector<std::size_t> rule_of;               // [tensor of the like]: a place in `rules`
  std::size_t copied_from = 0;                    // the input that gives what is not summed
  std::vector<std::filesystem::path> side_files;  // in the folder of that input

  /// Makes what is added to the sums of a tensor; of tensors without, an empty one. An empty
  /// function adds nothing.
  std::function<Addend(std::size_t tensor)> addend = {};
  /// Makes what takes the place of a tensor that is not summed; an empty one where nothing does.
  std::function<Replacement(std::size_t tensor)> replacement = {};

  const Coefficients& coefficients_of_tensor(std::size_t tensor) const {
    return rules.empty() ? coefficients : rules[rule_of[tensor]].coefficients;
  }
};

struct PassOptions {
  std::int64_t threads = 1;
  std::int64_t block = 65'536;       // elements read at a time
  bool may_differ = false;           // what is not summed: somebody has said whose is taken
  ByteProgress* progress = nullptr;  // of what is read; it ends at a block

  /// Throws std::runtime_error where somebody wants the merge to end.
  void require_running() const;
};

struct PassResult {
  checkpoints::TensorDigests read;          // of each input
  checkpoints::TensorDigests written;       // of each part
  std::vector<std::size_t> vanished;        // tensors that all became 0
  std::vector<std::string> base_read = {};  // of what adapters were folded into
  std::int64_t bytes_read = 0;              // of tensors
  std::int64_t bytes_written = 0;           // of shards
};

/// Throws std::runtime_error where more outputs are to be written at a time than half of the limit
/// of open files allows.
void require_open_files(const std::vector<Part>& parts, const checkpoints::ShardPlan& plan);

/// The writer of the parts' shards, which keeps digests of the inputs' tensors, too. `like`: whose
/// tensors the plan has.
checkpoints::ShardWriter writer_of(const std::vector<Input>& inputs,
                                   const std::vector<Part>& parts,
                                   const checkpoints::ShardPlan& plan,
                                   const Input& like,
                                   const checkpoints::Output& output);

/// Bytes of the inputs' tensors that the writer's shards need.
std::int64_t bytes_to_read(const std::vector<Input>& inputs,
                           const Input& like,
                           const checkpoints::ShardWriter& writer);

/// Writes the shards that are left of all parts, reading each input once, whose bytes the progress
/// expects already. A block never spans tensors; sums are float64 in the order of the
/// inputs, whatever the threads and blocks. Memory: threads x block x (8 + 8 bytes for each part).
/// Throws std::invalid_argument for a value that is not finite, and for tensors that are not summed
/// and differ; std::runtime_error for I/O errors, and where an input has been written meanwhile.
PassResult write_shards(const std::vector<Input>& inputs,
                        const std::vector<Part>& parts,
                        const checkpoints::ShardPlan& plan,
                        const Input& like,
                        const PassOptions& options,
                        checkpoints::ShardWriter& writer);

}  // namespace dimred::merge
