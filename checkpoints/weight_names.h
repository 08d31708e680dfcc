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
  bool is_number = false;  // one value, in no dimension
};

/// Returns which part of an adapter a name says that a tensor is, such as "lora_A" and "lora.down";
/// empty: of none.
std::string adapter_part(std::string_view name);

/// Returns adapter_part() of each of a file's weights. Words that a network's own modules may be
/// called, too (oft.r, vera_lambda, lora_encoder), count only where the layout of an adapter stands
/// behind them: all names are an adapter's, or another part of the same module or its base_layer is
/// there.
std::vector<std::string> adapter_parts(const std::vector<std::string>& names);

/// The role of a network's own tensor; bytes under other names than a weight's may be masks.
Role role_of(const TypedName& tensor);

/// The roles of all tensors of a checkpoint. Training state is what an optimizer holds of a weight
/// (moments.NAME or NAME.exp_avg beside NAME; below any name state.NUMBER.SLOT and state.NAME.*;
/// below the word of an optimizer also SLOT.NAME and NAME.SLOT of whatever slot; NAME/Adam_1 of
/// TensorFlow; further words before the optimizer's own only where no parameter of a network stands
/// below them, as in state.model.NAME), its rates, counters and scales (learning_rate, global_step,
/// n_averaged), a profiler's total_ops; a single number called a loss, an accuracy or a metric
/// without a dot, beside other tensors; train_state.* and dataloader.* beside other weights, and
/// *.train_metrics.*. Words that a module may be called, too (momentum, prev, optimizer), say so
/// only where an optimizer's other names stand beside them. Sources: mindspore/nn/optim,
/// mindspore/train/callback/_checkpoint.py; paddle/optimizer/optimizer.py; torch/optim,
/// torch/optim/swa_utils.py, torch/distributed/checkpoint/state_dict.py.
std::vector<Role> roles_of(const std::vector<TypedName>& tensors);

/// Sets the roles of weights that adapter_parts() tells from those of an adapter.
void settle_adapters(const std::vector<TypedName>& tensors, std::vector<Role>& roles);

/// Returns the names of weights that may also be an optimizer's: grad.NAME, m.NAME, master.NAME,
/// optimizer.NAME, optimizer.master.NAME or lion.NAME.m beside NAME or model.NAME,
/// optimizer.vars.NUMBER, and state.NUMBER.SLOT of unknown slots.
std::vector<std::string> doubtful_names(const std::vector<std::string>& weights);

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
