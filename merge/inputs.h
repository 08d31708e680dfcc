#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "checkpoints/series.h"

// The checkpoints that a merge reads: which, in which order, and where their tensors lie.
namespace dimred::merge {

/// Whether a tensor holds codes of a quantisation, which mean nothing without its scales.
bool is_quantised(const checkpoints::StoredTensor& tensor);

struct Input : checkpoints::Checkpoint {
  std::int64_t step = 0;  // from its name, or its place from 1 on
  checkpoints::ArtifactKind kind = checkpoints::ArtifactKind::missing;  // of `weights`
};

/// Which of the checkpoints, by step.
struct Window {
  std::int64_t from = 0;    // first step
  std::int64_t to = 0;      // last step; 0: no limit
  std::int64_t stride = 1;  // one of each `stride`, counted backwards from the newest
  std::int64_t last = 0;    // number of the newest of these; 0: all
  bool needs_order() const { return *this != Window(); }
  bool operator==(const Window&) const = default;
};

struct FoundInputs {
  checkpoints::Series series;
  std::vector<Input> inputs;  // its members; steps ascend; tensors not yet read
};

/// The checkpoints of sources (checkpoints::members), by their steps. Throws std::invalid_argument
/// for a source that is given twice and for matrices.
FoundInputs find_inputs(const std::vector<std::filesystem::path>& sources);

/// The places in `inputs` that the window chooses, ascending. Throws std::invalid_argument where
/// there are none.
std::vector<std::size_t> chosen(const std::vector<Input>& inputs, const Window& window);

/// Reads where the input's tensors lie. `take`: OpenOptions::take. Throws as
/// checkpoints::read_checkpoint, and std::invalid_argument for an input without tensors.
void read_tensors(Input& input, const std::string& take);

/// Throws std::invalid_argument where two inputs, whose tensors are read, are the same files, as a
/// link to a checkpoint is. (An index of shards alone may be one file for several checkpoints.)
void require_different_files(const std::vector<Input>& inputs);

/// Returns the place of each tensor of `expected` in another input, once `require_same` has taken
/// the two. Throws std::invalid_argument, naming both files and the tensor, where one input has a
/// name that the other lacks.
std::vector<std::size_t> places_in(
    const Input& expected,
    const Input& received,
    const std::function<void(const checkpoints::StoredTensor& tensor,
                             const checkpoints::StoredTensor& other)>& require_same);

/// Throws as places_in(), and for tensors of other shapes and types.
void require_same_tensors(const Input& expected, const Input& received);

/// Throws std::invalid_argument where snapshots were trained with different frozen parts,
/// std::runtime_error where a file is not the part that they were trained with.
void require_one_frozen_part(const std::vector<Input>& inputs);

/// Requires equal configurations and tokenizers in folders that have them.
void require_same_configuration(const Input& expected, const Input& received);

}  // namespace dimred::merge
