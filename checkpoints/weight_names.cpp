#include "checkpoints/weight_names.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <set>
#include <span>
#include <utility>

#include "checkpoints/safetensors.h"
#include "support/errors.h"
#include "support/option_values.h"
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

/// Names that no weight has, whatever stands beside them.
constexpr Words<6> of_any{
    "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "optimizer_state", "fp32_param"};

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

/// Whether these follow the word of an optimizer, no module: 0.exp_avg, state.NAME.step.
bool is_optimizers(std::span<const std::string_view> parts) {
  if (std::ranges::any_of(parts, is_of_any)) return true;
  const auto is_slot = [&] { return is_among(alone, parts.back()) || is_of_weight(parts.back()); };
  if (parts.size() == 2 && is_number(parts[0])) return is_slot();
  const auto layout = std::ranges::find_if(
      parts, [](std::string_view part) { return part == "state" || part == "param_groups"; });
  return parts.end() - layout > 2 && (is_number(layout[1]) || is_slot());
}

/// The names of a checkpoint, and what those of its optimizers begin with.
class TrainingState {
 public:
  explicit TrainingState(const std::vector<TypedName>& tensors) {
    for (const auto& tensor : tensors) add(tensor.name);
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
    return (may_begin && names_.contains(name.substr(first.size() + 1))) ||
           (is_of_weight(last) && names_.contains(name.substr(0, name.size() - last.size() - 1)));
  }

 private:
  void add(std::string_view name) {
    constexpr Words<5> of_optimizer{
        "learning_rate", "global_step", "beta1_power", "beta2_power", "scale_sense"};
    names_.insert(name);
    of_mindspore_ = of_mindspore_ || is_among(of_optimizer, name) || is_of_group(name);
    const auto parts = parts_of(name);
    const std::span all(parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto rest = all.subspan(i + 1);
      const bool state = parts[i] == "state" && std::ranges::any_of(rest, is_of_any);
      if (state || (may_be_optimizer(parts[i]) && is_optimizers(rest)))
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
