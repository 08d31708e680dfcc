#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

// Which tensors of a file are weights, and under which names a network has them. One list for all
// that reads weights of other programs: pca, evaluate, export, stage 2, transfers, the package.
namespace dimred::checkpoints {

/// The role of a checkpoint's tensor in its network.
enum class Role {
  weight,          // and each float that no name tells from one
  adapter,         // of LoRA and its kin: a weight whose product is added to another one
  buffer,          // integers and booleans
  statistic,       // BatchNorm's statistics and counts
  quantised,       // codes that mean nothing without their scales
  training_state,  // kept by a training program, as its name says
  beside,          // in another part of its file: an optimizer, an average, a loss
};

constexpr bool is_weight(Role role) { return role == Role::weight || role == Role::adapter; }
constexpr bool is_left_out(Role role) {
  return role == Role::training_state || role == Role::beside;
}

struct TypedName {
  std::string_view name;
  std::string_view dtype;  // as safetensors names it
};

/// The role of a network's own tensor; bytes under other names than a weight's may be masks.
Role role_of(const TypedName& tensor);

/// The roles of all tensors of a checkpoint. Training state is what an optimizer holds of a weight
/// (moments.NAME or NAME.exp_avg beside NAME, PREFIX.optim.state.NAME.* whatever the slot is
/// called, NAME/Adam_1 of TensorFlow), its rates, counters and scales (learning_rate, global_step,
/// n_averaged), a profiler's total_ops. Words that a module may be called, too (momentum, prev,
/// optimizer), say so only where an optimizer's other names stand beside them. Sources:
/// mindspore/nn/optim, mindspore/train/callback/_checkpoint.py; torch/optim,
/// torch/optim/swa_utils.py, torch/distributed/checkpoint/state_dict.py.
std::vector<Role> roles_of(const std::vector<TypedName>& tensors);

/// The names of a network's weights without the "module." that all of them begin with and the
/// "_orig_mod." anywhere.
std::vector<std::string> network_names(const std::vector<std::string>& weights);

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
