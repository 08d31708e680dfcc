#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

// Which tensors of a file are weights, and under which names a network has them. One list for all
// that reads weights of other programs: pca, evaluate, export, stage 2, transfers, the package.
namespace dimred::checkpoints {

/// Whether a training program keeps the tensor beside the weights: what an optimizer holds of a
/// weight (moments.NAME or NAME.exp_avg beside NAME), its rates, counters and scales
/// (learning_rate, global_step, scale_sense, n_averaged), a profiler's total_ops. `names`: all of
/// its file. Sources: mindspore/nn/optim, mindspore/train/callback/_checkpoint.py;
/// torch/optim, torch/optim/swa_utils.py.
bool is_training_state(std::string_view name, const std::set<std::string>& names);

/// BatchNorm's statistics and counts: a network's buffers, but no weights.
bool is_statistic(std::string_view name);

/// Whether a tensor of this safetensors type holds the codes of a quantisation in the place of
/// weights. Bytes under other names than a weight's may be masks.
bool holds_quantised_weights(std::string_view name, std::string_view dtype);

/// What is chosen among the tensors of a file whose network is not known.
struct ChosenWeights {
  std::vector<std::optional<std::string>> names;  // of each tensor; nothing: it is no weight
  std::vector<std::string> left_out;              // training state
};

/// The floating tensors that are neither training state nor statistics, without the "module." that
/// all of them begin with and the "_orig_mod." anywhere.
ChosenWeights choose_weights(const std::vector<std::string>& names,
                             const std::vector<bool>& floating);

/// The names without the "_orig_mod." that torch.compile puts before what a module holds; as they
/// are where two would be the same then.
std::vector<std::string> without_compiled(const std::vector<std::string>& names);

/// The prefix that all names begin with ("module.", "model.net.", what stands before a dot) and
/// without which most of `wanted` are found among them; the shortest such, empty where the names as
/// they are find as many.
std::string prefix_to_drop(const std::vector<std::string>& names,
                           const std::set<std::string>& wanted);

/// "5 tensors (a, b, c, ...)".
std::string count_and_names(const std::vector<std::string>& names);

}  // namespace dimred::checkpoints
