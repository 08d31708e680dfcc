#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "checkpoints/weight_names.h"

// Weight files that other programs wrote: safetensors, PyTorch's zip format (torch.save) and
// MindSpore's .ckpt. Nothing of a file is ever run, and no size that it names is believed before
// the bytes are seen.
namespace dimred::checkpoints {

struct WeightTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool floating = true;
  std::vector<float> values;           // of a floating one, as float32
  std::vector<std::int64_t> integers;  // of any other
  Role role = Role::weight;
};

struct WeightsFile {
  std::string format;                 // "safetensors", "PyTorch", "MindSpore"
  std::vector<WeightTensor> tensors;  // different names, in the file's order
  std::vector<std::string> left_out;  // what lies beside the network; by fit_names, training state
  std::string chosen;                 // for a person: "step20 is the newest of 5"
  std::string averaging;              // Checkpoint::averaging
  std::string renamed;                // by fit_names: "the prefix model. of all names is dropped"
  std::vector<std::string> classes = {};  // that its run trained for; empty: not known
};

/// Reads all values of a file, of the shards of an index, or of a distributed checkpoint
/// (.metadata); a file's content says which format it is. Float16, bfloat16 and float64 become
/// float32; names stay as they are. Throws as weights_format, std::runtime_error("[format] 'file':
/// ...") for a damaged one, one that wants code to be run, an element type without a place here, or
/// a value that is not finite.
WeightsFile read_weights(const std::filesystem::path& path);

/// Gives the tensors the names that a network has for them, and leaves out what a training program
/// keeps beside weights, unless it is `wanted`. Three ways to read the
/// names are tried, and the one that finds most of `wanted` is taken: as they are; without a prefix
/// that all have; and MindSpore's as PyTorch's, where gamma, beta, moving_mean, moving_variance
/// become weight, bias, running_mean, running_var, and its ResNet's down_sample_layer, end_point
/// become downsample, fc.
void fit_names(WeightsFile& file, const std::set<std::string>& wanted);

/// "the prefix model. of all names is dropped; left out as training state: 3 tensors (n_averaged,
/// ...)"; empty where nothing is.
std::string remarks_on(const WeightsFile& file);

}  // namespace dimred::checkpoints
