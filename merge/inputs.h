#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/frozen_part.h"
#include "checkpoints/tensor_table.h"
#include "support/file_state.h"

// The checkpoints that a merge reads: which, in which order, and where their tensors lie.
namespace dimred::merge {

/// A tensor of a checkpoint.
struct Tensor : checkpoints::StoredTensor {
  std::size_t file = 0;  // of Input::files
  bool shared = false;   // the same for all inputs, of a frozen part: read from one of them
  std::int64_t elements = 0;
  std::int64_t bytes = 0;

  /// Whether a merge sums it: float64, float32, bfloat16 or float16, and no statistic of BatchNorm.
  /// Others are copied from one checkpoint.
  bool is_summed() const;
  /// Whether it holds codes of a quantisation, which mean nothing without its scales.
  bool is_quantised() const;
};

struct Input {
  std::filesystem::path path;                     // as named: a folder or a file
  std::int64_t step = 0;                          // from its name, or its place from 1 on
  std::vector<std::filesystem::path> files;       // shards
  FileGuard guard;                                // of these, an index and a frozen part
  std::vector<Tensor> tensors;                    // by file, in the order of their bytes
  std::vector<std::string> left_out;              // optimizer state and the like
  bool in_folder = false;                         // of its own, with configuration and tokenizer
  std::optional<checkpoints::FrozenPart> frozen;  // of a snapshot; its tensors are among the above

  /// The folder whose side files go with it; empty: none.
  std::filesystem::path folder() const;
};

/// Which of the checkpoints, by step.
struct Window {
  std::int64_t from = 0;    // first step
  std::int64_t to = 0;      // last step; 0: no limit
  std::int64_t stride = 1;  // one of each `stride`, counted backwards from the newest
  std::int64_t last = 0;    // number of the newest of these; 0: all
  bool operator==(const Window&) const = default;
};

struct Found {
  std::vector<Input> inputs;  // steps ascend; headers only, tensors not yet read
  bool counted = false;       // a name carries no step: they are counted in the order given
};

/// Steps by what checkpoints are called, or their places from 1 on where a name has none.
struct Steps {
  std::vector<std::int64_t> of;
  bool counted = false;
};

/// Each is a weight file, a snapshot, or a folder. The number behind step, iter, checkpoint, ckpt
/// or epoch where all names have one of these; else the last number, where these differ. For a
/// name without a number stands that of its folder.
Steps steps_of(const std::vector<std::filesystem::path>& checkpoints);

/// The checkpoints of sources: each a checkpoint (a weight file, a snapshot, a folder with weights
/// or an index), or what pca::snapshot_files takes. Throws std::invalid_argument for a source
/// without any, one that is given twice, two of one step, or a folder that holds both a
/// checkpoint's weights and folders with others'.
Found find_inputs(const std::vector<std::filesystem::path>& sources);

/// The places in `inputs` that the window chooses, ascending. Throws std::invalid_argument where
/// there are none.
std::vector<std::size_t> chosen(const std::vector<Input>& inputs, const Window& window);

/// Reads where the input's tensors lie. Throws as checkpoints::read_checkpoint and
/// verify_snapshot, and std::invalid_argument for a type that no safetensors file has.
void read_tensors(Input& input);

/// Throws std::invalid_argument where two inputs, whose tensors are read, are the same files, as a
/// link to a checkpoint is. (An index of shards alone may be one file for several checkpoints.)
void require_different_files(const std::vector<Input>& inputs);

/// Throws std::invalid_argument, naming both files and the tensor, where they do not hold the same
/// tensors: names, shapes and types.
void require_same_tensors(const Input& expected, const Input& received);

/// Throws std::invalid_argument where snapshots were trained with different frozen parts,
/// std::runtime_error where a file is not the part that they were trained with.
void require_one_frozen_part(const std::vector<Input>& inputs);

/// The same as for tensors of configurations and tokenizers in their folders, where both have them.
void require_same_configuration(const Input& expected, const Input& received);

}  // namespace dimred::merge
