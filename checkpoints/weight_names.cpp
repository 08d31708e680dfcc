#include "checkpoints/weight_names.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <utility>

#include "checkpoints/safetensors.h"
#include "support/errors.h"
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

/// What optimizers hold of a weight: WORD.NAME or NAME.WORD beside NAME.
constexpr Words<25> of_weight{"moments",      "moment",   "moment1",    "moment2",     "vhat",
                              "adam_m",       "adam_v",   "lamb_m",     "lamb_v",      "accum",
                              "stat",         "linear",   "prev",       "mean_square", "mean_grad",
                              "accumulation", "sum",      "square_avg", "acc_delta",   "grad_avg",
                              "exp_inf",      "momentum", "Momentum",   "Adam",        "RMSProp"};

/// The same, which no weight is called, whatever stands beside it.
constexpr Words<6> of_any{
    "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "optimizer_state", "fp32_param"};

/// Dictionaries of an optimizer in which names and numbers follow.
constexpr Words<7> holders{"optimizer",
                           "optim",
                           "optimizers",
                           "optimizer_states",
                           "optimizer_state_dict",
                           "lr_scheduler",
                           "lr_schedulers"};

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

}  // namespace

bool is_training_state(std::string_view name, const std::set<std::string>& names) {
  if (is_among(alone, name) || is_of_group(name) || is_of_profiler(name)) return true;
  const auto first = name.substr(0, name.find_first_of("./"));
  const auto last_at = name.find_last_of("./");
  const auto last = last_at == name.npos ? name : name.substr(last_at + 1);
  for (const auto part : std::views::split(name, '.'))
    if (is_among(of_any, std::string_view(part.begin(), part.end()))) return true;
  if (last_at == name.npos) return false;
  if (is_among(holders, first)) return true;
  return (is_among(of_weight, first) &&
          names.contains(std::string(name.substr(first.size() + 1)))) ||
         (is_among(of_weight, last) && names.contains(std::string(name.substr(0, last_at))));
}

bool is_statistic(std::string_view name) {
  constexpr Words<5> ends{
      "running_mean", "running_var", "moving_mean", "moving_variance", "num_batches_tracked"};
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

bool holds_quantised_weights(std::string_view name, std::string_view dtype) {
  constexpr Words<4> packed{"qweight", "qzeros", "weight_packed", "g_idx"};
  const auto ends_so = [&](std::string_view end) { return name.ends_with(end); };
  const bool bytes = dtype == "U8" || dtype == "I8";
  return (dtype.starts_with("F") && !is_float_type(dtype)) || (bytes && name.ends_with("weight")) ||
         (!is_float_type(dtype) && std::ranges::any_of(packed, ends_so));
}

ChosenWeights choose_weights(const std::vector<std::string>& names,
                             const std::vector<bool>& floating) {
  check(names.size() == floating.size(), "choose_weights: a name for each tensor");
  const std::set<std::string> all(names.begin(), names.end());
  ChosenWeights chosen{.names = std::vector<std::optional<std::string>>(names.size()),
                       .left_out = {}};
  std::vector<std::string> weights;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool state = is_training_state(names[i], all);
    if (state) chosen.left_out.push_back(names[i]);
    if (state || !floating[i] || is_statistic(names[i])) continue;
    chosen.names[i] = names[i];
    weights.push_back(names[i]);
  }
  auto bare = without_compiled(weights);
  constexpr std::string_view parallel = "module.";
  while (all_begin_with(bare, parallel))
    for (auto& name : bare) name.erase(0, parallel.size());
  auto next = bare.begin();
  for (auto& name : chosen.names)
    if (name) name = std::move(*next++);
  return chosen;
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
  const std::vector<std::string> first(names.begin(), names.begin() + std::min(most, names.size()));
  return formatted("{} tensor{} ({}{})",
                   names.size(),
                   names.size() == 1 ? "" : "s",
                   name_list(first),
                   names.size() > most ? ", ..." : "");
}

}  // namespace dimred::checkpoints
