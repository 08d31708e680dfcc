#include "checkpoints/weight_names.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <set>
#include <span>
#include <unordered_set>
#include <utility>

#include "checkpoints/safetensors.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

template <std::size_t size>
using Words = std::array<std::string_view, size>;

template <class List>
bool is_among(const List& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// Whole names of what belongs to no weight.
constexpr Words<20> alone{"learning_rate",
                          "lr",
                          "momentum",
                          "weight_decay",
                          "loss_scale",
                          "scale_sense",
                          "global_step",
                          "current_iterator_step",
                          "last_overflow_iterator_step",
                          "beta1_power",
                          "beta2_power",
                          "epoch",
                          "epoch_num",
                          "step",
                          "step_num",
                          "iteration",
                          "n_averaged",
                          "best_acc1",
                          "total_ops",
                          "total_params"};

/// Names of an optimizer's tensors for a weight: WORD.NAME or NAME.WORD beside NAME.
constexpr Words<17> of_weight{"moments",
                              "moment1",
                              "moment2",
                              "vhat",
                              "adam_m",
                              "adam_v",
                              "lamb_m",
                              "lamb_v",
                              "mean_square",
                              "mean_grad",
                              "square_avg",
                              "acc_delta",
                              "grad_avg",
                              "exp_inf",
                              "Momentum",
                              "Adam",
                              "RMSProp"};

/// Others that modules are called, too: as WORD.NAME only beside what MindSpore's optimizers write.
constexpr Words<8> of_weight_or_module{
    "moment", "momentum", "accum", "accumulation", "stat", "linear", "prev", "sum"};

/// Others of TensorFlow: WEIGHT/Adagrad, and WEIGHT/Adam_1 for the second tensor of one name.
constexpr Words<11> of_tensorflow{"Adam",
                                  "AdaMax",
                                  "AdamW",
                                  "Momentum",
                                  "RMSProp",
                                  "Adagrad",
                                  "AdagradDA",
                                  "Adadelta",
                                  "Ftrl",
                                  "ProximalAdagrad",
                                  "LAMB"};

/// Names that no weight has, whatever stands beside them.
constexpr Words<9> of_any{"exp_avg",
                          "exp_avg_sq",
                          "max_exp_avg_sq",
                          "momentum_buffer",
                          "optimizer_state",
                          "fp32_param",
                          "fp32_from_fp16_params",
                          "single_partition_of_fp32_groups",
                          "OPTIMIZER_SLOT"};

/// Dictionaries that no module is called.
constexpr Words<5> holders{
    "optimizer_states", "optimizer_state_dict", "optim_state", "optim_state_dict", "opt_state"};

/// Whether the name is that of a group of weights, such as learning_rate_group_1.
bool is_of_group(std::string_view name) {
  return name.starts_with("learning_rate_group_") || name.starts_with("weight_decay_group_");
}

bool is_of_profiler(std::string_view name) {
  return name.ends_with(".total_ops") || name.ends_with(".total_params");
}

/// Every name begins with the prefix, and something follows.
bool all_begin_with(const std::vector<std::string>& names, std::string_view prefix) {
  return !names.empty() && std::ranges::all_of(names, [&](const std::string& name) {
    return name.size() > prefix.size() && name.starts_with(prefix);
  });
}

/// How many are wanted without their first letters.
std::size_t found_without(std::size_t letters,
                          const std::vector<std::string>& names,
                          const std::set<std::string>& wanted) {
  return std::ranges::count_if(
      names, [&](const std::string& name) { return wanted.contains(name.substr(letters)); });
}

using Parts = std::vector<std::string_view>;

/// The words between dots, or between the slashes of TensorFlow.
Parts parts_of(std::string_view name) {
  Parts parts;
  for (std::size_t begin = 0; begin <= name.size();) {
    const auto end = std::min(name.find_first_of("./", begin), name.size());
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool is_number(std::string_view part) {
  return !part.empty() && part.find_first_not_of("0123456789") == part.npos;
}

bool is_of_any(std::string_view part) {
  return is_among(of_any, part) || is_among(holders, part) || part.starts_with("lr_scheduler");
}

bool is_of_weight(std::string_view part) {
  return is_among(of_weight, part) || is_among(of_weight_or_module, part);
}

bool may_be_optimizer(std::string_view part) {
  return part == "opt" || part == "optim" || part.starts_with("optim_") ||
         part.starts_with("optimizer");
}

bool is_slot(std::string_view part) { return is_among(alone, part) || is_of_weight(part); }

/// Whether these follow the word of an optimizer, no module: 0.exp_avg, state.NAME.step.
bool is_optimizers(std::span<const std::string_view> parts) {
  if (std::ranges::any_of(parts, is_of_any)) return true;
  if (parts.size() == 2 && is_number(parts[0])) return is_slot(parts.back());
  const auto layout = std::ranges::find_if(
      parts, [](std::string_view part) { return part == "state" || part == "param_groups"; });
  return parts.end() - layout > 2 && (is_number(layout[1]) || is_slot(parts.back()));
}

/// Whether TensorFlow calls an optimizer's tensor so: Adam, Adam_1.
bool is_of_tensorflow(std::string_view part) {
  const auto end = part.rfind('_');
  const bool counted = end != part.npos && is_number(part.substr(end + 1));
  return is_among(of_tensorflow, counted ? part.substr(0, end) : part);
}

/// The text from the first of the parts, which are of one name, to the last.
std::string_view joined_text(std::span<const std::string_view> parts) {
  return {parts.front().begin(), parts.back().end()};
}

/// The names of weights, as optimizers have them: without what a file puts before them.
class NamesOfWeights {
 public:
  /// Adds what stands behind each separator of a name that is in no optimizer.
  void add(std::string_view name, const Parts& parts) {
    if (std::ranges::any_of(parts, may_be_optimizer)) return;
    for (const auto part : parts) {
      const auto end = name.substr(part.data() - name.data());
      names_.insert(end);
      if (end.find('/') == end.npos) continue;
      std::string flat(end);
      std::ranges::replace(flat, '/', '_');
      flat_.insert(std::move(flat));
    }
  }

  bool has(std::span<const std::string_view> parts) const {
    return !parts.empty() && names_.contains(joined_text(parts));
  }

  /// Whether these follow the word of an optimizer: state.NAME.* whatever the slot is called,
  /// NAME.momentum, or Keras' conv_kernel_momentum of conv/kernel.
  bool are_in_optimizer(std::span<const std::string_view> parts) const {
    if (parts.empty()) return false;
    const auto last = parts.back();
    if (is_slot(last) && has(parts.first(parts.size() - 1))) return true;
    for (auto end = last.find('_'); end != last.npos; end = last.find('_', end + 1))
      if (flat_.contains(std::string(last.substr(0, end)))) return true;
    const auto state = std::ranges::find(parts, "state");
    if (state == parts.end()) return false;
    const auto of_state = parts.subspan(state - parts.begin() + 1);
    for (std::size_t count = 1; count < of_state.size(); ++count)
      if (has(of_state.first(count))) return true;
    return false;
  }

 private:
  std::unordered_set<std::string_view> names_;
  std::unordered_set<std::string> flat_;
};

/// The names of a checkpoint, and what those of its optimizers begin with.
class TrainingState {
 public:
  explicit TrainingState(const std::vector<TypedName>& tensors) {
    NamesOfWeights weights;
    for (const auto& tensor : tensors) add(tensor.name, weights);
    for (const auto& tensor : tensors) find_optimizers(tensor.name, weights);
  }

  bool holds(std::string_view name) const {
    if (is_among(alone, name) || is_of_group(name) || is_of_profiler(name)) return true;
    const auto parts = parts_of(name);
    if (std::ranges::any_of(parts, is_of_any)) return true;
    if (parts.size() == 1) return false;
    const auto in_optimizer = [&](std::string_view part) {
      return optimizers_.contains(name.substr(0, part.end() - name.begin()));
    };
    if (std::ranges::any_of(parts, in_optimizer)) return true;
    const auto first = parts.front(), last = parts.back();
    const bool may_begin = is_among(of_weight, first) || (of_mindspore_ && is_of_weight(first));
    const auto before = name.size() - last.size() - 1;
    const bool may_end = is_of_weight(last) || (name[before] == '/' && is_of_tensorflow(last));
    return (may_begin && names_.contains(name.substr(first.size() + 1))) ||
           (may_end && names_.contains(name.substr(0, before)));
  }

 private:
  void add(std::string_view name, NamesOfWeights& weights) {
    constexpr Words<5> of_optimizer{
        "learning_rate", "global_step", "beta1_power", "beta2_power", "scale_sense"};
    names_.insert(name);
    of_mindspore_ = of_mindspore_ || is_among(of_optimizer, name) || is_of_group(name);
    weights.add(name, parts_of(name));
  }

  void find_optimizers(std::string_view name, const NamesOfWeights& weights) {
    const auto parts = parts_of(name);
    const std::span all(parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto rest = all.subspan(i + 1);
      const bool state = parts[i] == "state" && std::ranges::any_of(rest, is_of_any);
      const auto in_optimizer = [&] {
        return is_optimizers(rest) || weights.are_in_optimizer(rest);
      };
      if (state || (may_be_optimizer(parts[i]) && in_optimizer()))
        optimizers_.insert(name.substr(0, parts[i].end() - name.begin()));
    }
  }

  std::set<std::string_view> names_, optimizers_;
  bool of_mindspore_ = false;
};

bool is_statistic(std::string_view name) {
  constexpr Words<5> ends{
      "running_mean", "running_var", "moving_mean", "moving_variance", "num_batches_tracked"};
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

bool holds_codes(const TypedName& tensor) {
  const auto& [name, dtype] = tensor;
  constexpr Words<4> packed{"qweight", "qzeros", "weight_packed", "g_idx"};
  const auto ends_so = [&](std::string_view end) { return name.ends_with(end); };
  const bool bytes = dtype == "U8" || dtype == "I8";
  return (dtype.starts_with("F") && !is_float_type(dtype)) || (bytes && name.ends_with("weight")) ||
         (!is_float_type(dtype) && std::ranges::any_of(packed, ends_so));
}

/// As PEFT names the parts of LoRA, DoRA, AdaLoRA, LoHa and LoKr.
bool is_of_adapter(std::string_view part) {
  return part.starts_with("lora_") || part.starts_with("hada_w") || part.starts_with("lokr_w");
}

}  // namespace

Role role_of(const TypedName& tensor) {
  const bool complex = tensor.dtype.starts_with("C");
  if (is_statistic(tensor.name)) return Role::statistic;
  if (holds_codes(tensor)) return Role::quantised;
  if (!is_float_type(tensor.dtype) && !complex) return Role::buffer;
  return std::ranges::any_of(parts_of(tensor.name), is_of_adapter) ? Role::adapter : Role::weight;
}

std::vector<Role> roles_of(const std::vector<TypedName>& tensors) {
  const TrainingState state(tensors);
  std::vector<Role> roles;
  for (const auto& tensor : tensors)
    roles.push_back(state.holds(tensor.name) ? Role::training_state : role_of(tensor));
  return roles;
}

std::vector<std::string> network_names(const std::vector<std::string>& weights) {
  auto bare = without_compiled(weights);
  constexpr std::string_view parallel = "module.";
  while (all_begin_with(bare, parallel))
    for (auto& name : bare) name.erase(0, parallel.size());
  return bare;
}

std::vector<std::string> without_compiled(const std::vector<std::string>& names) {
  constexpr std::string_view wrapper = "_orig_mod.";
  auto bare = names;
  for (auto& name : bare)
    for (auto at = name.find(wrapper); at != name.npos; at = name.find(wrapper, at))
      if (at == 0 || name[at - 1] == '.')
        name.erase(at, wrapper.size());
      else
        at += wrapper.size();
  return std::set<std::string>(bare.begin(), bare.end()).size() == names.size() ? bare : names;
}

std::string prefix_to_drop(const std::vector<std::string>& names,
                           const std::set<std::string>& wanted) {
  std::string best;
  auto most = found_without(0, names, wanted);
  if (names.empty()) return best;
  const auto& one = names.front();
  for (auto dot = one.find('.'); dot != one.npos; dot = one.find('.', dot + 1)) {
    const auto prefix = one.substr(0, dot + 1);
    if (!all_begin_with(names, prefix)) break;
    const auto found = found_without(prefix.size(), names, wanted);
    if (found <= most) continue;
    most = found;
    best = prefix;
  }
  return best;
}

std::string count_and_names(const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  std::vector<std::string> first;
  for (const auto& name : names | std::views::take(most)) first.push_back(printable(name));
  return formatted("{} tensor{} ({}{})",
                   names.size(),
                   names.size() == 1 ? "" : "s",
                   name_list(first),
                   names.size() > most ? ", ..." : "");
}

}  // namespace dimred::checkpoints
