#include "checkpoints/weight_names.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
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
constexpr Words<21> alone{"learning_rate",
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
                          "state_step",
                          "iteration",
                          "n_averaged",
                          "best_acc1",
                          "total_ops",
                          "total_params"};

/// Names of an optimizer's tensors for a weight: WORD.NAME or NAME.WORD beside NAME.
constexpr Words<23> of_weight{
    "moments",       "moment1",       "moment2",     "vhat",      "adam_m",     "adam_v",
    "lamb_m",        "lamb_v",        "mean_square", "mean_grad", "square_avg", "acc_delta",
    "row_var",       "col_var",       "grad_avg",    "exp_inf",   "main_grad",  "accu_grads",
    "beta1_pow_acc", "beta2_pow_acc", "Momentum",    "Adam",      "RMSProp"};

/// Others that modules are called, too: as WORD.NAME only beside what MindSpore's optimizers write.
constexpr Words<9> of_weight_or_module{
    "moment", "momentum", "accum", "accumulation", "stat", "linear", "prev", "sum", "grad"};

/// Others that say nothing but below an optimizer's word: optimizer.mu.NAME.
constexpr Words<6> of_optimizer_alone{"m", "v", "mu", "nu", "trace", "velocity"};

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
constexpr Words<12> of_any{"exp_avg",
                           "exp_avg_sq",
                           "max_exp_avg_sq",
                           "momentum_buffer",
                           "optimizer_state",
                           "param_groups",
                           "master_params",
                           "fp32_master",
                           "fp32_param",
                           "fp32_from_fp16_params",
                           "single_partition_of_fp32_groups",
                           "OPTIMIZER_SLOT"};

/// Dictionaries of a training program beside its weights, as torchtitan and Composer call them.
constexpr Words<2> of_program{"train_state", "dataloader"};
constexpr Words<2> of_metrics{"train_metrics", "eval_metrics"};

/// Dictionaries that no module is called.
constexpr Words<5> holders{
    "optimizer_states", "optimizer_state_dict", "optim_state", "optim_state_dict", "opt_state"};

/// Optimizers' names, also as one word of several: optim_0, opt_gen, adam.
constexpr Words<13> optimizers{"opt",
                               "opts",
                               "optim",
                               "optims",
                               "adam",
                               "adamw",
                               "adamax",
                               "adagrad",
                               "adadelta",
                               "adafactor",
                               "rmsprop",
                               "sgd",
                               "lamb"};

/// The last words of a network's own names, which no optimizer gives what it holds.
constexpr Words<5> of_parameter{"weight", "bias", "kernel", "gamma", "beta"};

/// Dictionaries with the names of a network.
constexpr Words<7> wrappers{
    "state_dict", "model_state_dict", "model", "module", "net", "network", "params"};

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
using Span = std::span<const std::string_view>;

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

bool is_of_any(std::string_view part) { return is_among(of_any, part) || is_among(holders, part); }

bool is_holder(std::string_view part) {
  return is_among(holders, part) || part == "optimizer_state";
}

bool is_of_weight(std::string_view part) {
  return is_among(of_weight, part) || is_among(of_weight_or_module, part);
}

bool is_called_optimizer(std::string_view part) {
  const auto text = lower_case(part);
  return text.find("optimizer") != text.npos || text.find("optimiser") != text.npos;
}

/// Whether an optimizer may be called so, as a module may be: what stands behind the word decides.
bool may_be_optimizer(std::string_view part) {
  if (is_called_optimizer(part)) return true;
  const auto text = lower_case(part);
  for (std::size_t begin = 0, end = 0; end < text.size(); begin = end + 1) {
    end = std::min(text.find('_', begin), text.size());
    if (is_among(optimizers, std::string_view(text).substr(begin, end - begin))) return true;
  }
  return false;
}

/// Whether an optimizer's word, and behind it numbers alone, end the parts: "state" behind them is
/// the optimizer's own.
bool end_in_optimizer(Span parts) {
  while (!parts.empty() && is_number(parts.back())) parts = parts.first(parts.size() - 1);
  return !parts.empty() && may_be_optimizer(parts.back());
}

/// A slot as Paddle counts it: moment1 of moment1_0.
std::string_view without_count(std::string_view slot) {
  const auto end = slot.rfind('_');
  return end != slot.npos && is_number(slot.substr(end + 1)) ? slot.substr(0, end) : slot;
}

bool is_slot(std::string_view part) { return is_among(alone, part) || is_of_weight(part); }

/// Whether a network's own names end so: weight, weight_ih_l0.
bool is_of_parameter(std::string_view part) {
  return is_among(of_parameter, part.substr(0, part.find('_'))) && !is_slot(part);
}

/// Whether these follow the word of an optimizer, no module: exp_avg.NAME, state.0.step.
bool is_optimizers(Span parts) {
  if (std::ranges::any_of(parts, is_of_any)) return true;
  const auto state = std::ranges::find(parts, "state");
  return parts.end() - state > 2 && !is_of_parameter(parts.back()) &&
         (is_number(state[1]) || is_slot(parts.back()));
}

/// Whether TensorFlow calls an optimizer's tensor so: Adam, Adam_1.
bool is_of_tensorflow(std::string_view part) {
  return is_among(of_tensorflow, without_count(part));
}

/// A word between separators, in lower case and without its number, and where it ends.
struct NameWord {
  std::string text;
  std::size_t begin = 0, end = 0;
};

/// The words of a name: LoRA_A1 is lora, a.
std::vector<NameWord> words_of(std::string_view name) {
  std::vector<NameWord> words;
  const auto text = lower_case(name);
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find_first_of("./_-", begin), text.size());
    auto word = text.substr(begin, end - begin);
    while (!word.empty() && is_number(word.substr(word.size() - 1))) word.pop_back();
    if (!word.empty()) words.push_back({std::move(word), begin, end});
    begin = end + 1;
  }
  return words;
}

/// Whether a program calls a loss, an accuracy or a metric so, without a dot: val_loss, acc1.
bool is_training_measure(std::string_view name) {
  constexpr Words<4> measures{"acc", "accuracy", "metric", "metrics"};
  if (name.find_first_of("./") != name.npos) return false;
  const auto words = words_of(name);
  const auto is_measure = [&](const NameWord& word) { return is_among(measures, word.text); };
  return !words.empty() && (words.back().text == "loss" || std::ranges::any_of(words, is_measure));
}

/// The text from the first of the parts, which are of one name, to the last.
std::string_view joined_text(Span parts) { return {parts.front().begin(), parts.back().end()}; }

/// The names of weights, as optimizers have them: without what a file puts before them.
class NamesOfWeights {
 public:
  /// Adds what stands behind each separator of a name that is in no optimizer.
  void add(std::string_view name, const Parts& parts) {
    if (std::ranges::any_of(parts, may_be_optimizer)) return;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto end = name.substr(parts[i].data() - name.data());
      const bool wrapped = i > 0 && is_among(wrappers, parts[i - 1]);
      auto& share = shares_[end];
      share = std::max(share, i == 0 ? Share::full : wrapped ? Share::wrapped : Share::end);
      if (share > Share::end && !is_among(parts, "state")) beside_state_.insert(end);
      if (end.find('/') == end.npos) continue;
      std::string flat(end);
      std::ranges::replace(flat, '/', '_');
      flat_.insert(std::move(flat));
    }
  }

  /// Whether these follow the word of an optimizer: a weight's name with more before it or behind
  /// it (NAME.m, mu.NAME, state.NAME.*), or Keras' conv_kernel_momentum of conv/kernel.
  bool are_in_optimizer(Span parts) const {
    for (std::size_t begin = 0; begin < parts.size(); ++begin) {
      if (ends_behind_slot(parts, begin)) return true;
      for (std::size_t end = begin + 1; end < parts.size(); ++end)
        if (stands_before_slot(parts, begin, end)) return true;
    }
    const auto last = parts.back();
    for (auto end = last.find('_'); end != last.npos; end = last.find('_', end + 1)) {
      const std::string_view before(parts.front().begin(), last.begin() + end);
      if (flat_.contains(std::string(last.substr(0, end)))) return true;
      if (parts.size() > 1 && share_of(before) > Share::end) return true;
    }
    return false;
  }

  /// Whether these follow the "state" of an optimizer of whatever name: NAME.*, 0.exp_avg.
  bool are_in_state(Span parts) const {
    if (std::ranges::any_of(parts, is_of_any)) return true;
    if (is_of_parameter(parts.back())) return false;
    for (std::size_t count = 1; count < parts.size(); ++count)
      if (beside_state_.contains(joined_text(parts.first(count)))) return true;
    return false;
  }

 private:
  /// How much of a weight's name a text is: the end, all behind a wrapper, all.
  enum class Share { none, end, wrapped, full };

  Share share_of(std::string_view text) const {
    const auto found = shares_.find(text);
    return found == shares_.end() ? Share::none : found->second;
  }

  /// Whether a weight's name stands from `begin` to `end`, and behind it what no weight ends in.
  bool stands_before_slot(Span parts, std::size_t begin, std::size_t end) const {
    if (is_of_parameter(parts.back())) return false;
    const auto name = parts.subspan(begin, end - begin);
    const auto share = share_of(joined_text(name));
    const bool in_state = begin > 0 && parts[begin - 1] == "state";
    if (in_state || (begin == 0 && end + 1 == parts.size() && is_slot(parts.back())))
      return share > Share::none;
    if (name.size() == 1) return begin == 0 && share > Share::end;
    return share > (is_of_parameter(name.back()) ? Share::none : Share::end);
  }

  /// Whether a weight's name stands from `begin` on, and before it what an optimizer holds.
  bool ends_behind_slot(Span parts, std::size_t begin) const {
    const auto share = share_of(joined_text(parts.subspan(begin)));
    const bool long_name = begin + 1 < parts.size();
    while (begin > 0 && is_among(wrappers, parts[begin - 1])) --begin;
    if (begin == 0 || share == Share::none) return false;
    const auto slot = parts[begin - 1];
    if (long_name && share == Share::full) return slot != "state" && !is_number(slot);
    if (!is_among(of_weight, slot) && !is_among(of_optimizer_alone, slot)) return false;
    const bool first = std::ranges::all_of(parts.first(begin - 1), is_number);
    return share > Share::end || (long_name && first);
  }

  std::unordered_map<std::string_view, Share> shares_;
  std::unordered_set<std::string_view> beside_state_;
  std::unordered_set<std::string> flat_;
};

/// The names of a checkpoint, and what those of its optimizers begin with.
class TrainingState {
 public:
  explicit TrainingState(const std::vector<TypedName>& tensors) {
    NamesOfWeights weights;
    for (const auto& tensor : tensors) add(tensor, weights);
    std::set<std::string_view> slots, modules;
    for (const auto& tensor : tensors) find_optimizers(tensor.name, weights, slots, modules);
    std::ranges::set_difference(slots, modules, std::inserter(optimizers_, optimizers_.end()));
    for (const auto& tensor : tensors) find_programs(tensor.name);
    std::ranges::set_difference(around_, programs_, std::inserter(optimizers_, optimizers_.end()));
  }

  bool holds(const TypedName& tensor) const {
    const auto name = tensor.name;
    if (tensor.is_number && holds_more_ && is_training_measure(name)) return true;
    if (is_among(alone, name) || is_of_group(name) || is_of_profiler(name)) return true;
    const auto parts = parts_of(name);
    if (std::ranges::any_of(parts, is_of_any) || is_suffixed(name, parts.back())) return true;
    if (parts.size() == 1) return false;
    if (is_of_program(parts) || is_programs_own(name, parts.back())) return true;
    const auto is_scheduler = [](auto part) { return part.starts_with("lr_scheduler"); };
    if (!is_of_parameter(parts.back()) && std::ranges::any_of(parts, is_scheduler)) return true;
    const auto in_optimizer = [&](std::string_view part) {
      return optimizers_.contains(name.substr(0, part.end() - name.begin()));
    };
    return std::ranges::any_of(parts, in_optimizer) || is_beside_weight(name, parts);
  }

 private:
  /// Whether these follow a program's word: train_state.* beside other weights, train_metrics.*.
  bool is_of_program(const Parts& parts) const {
    if (is_of_parameter(parts.back())) return false;
    const auto above = Span(parts).first(parts.size() - 1);
    return (holds_network_ && is_among(of_program, parts.front())) ||
           std::ranges::any_of(above, [](auto part) { return is_among(of_metrics, part); });
  }

  /// Whether a program that holds a network and an optimizer has the name beside both: state.step.
  bool is_programs_own(std::string_view name, std::string_view last) const {
    return is_among(alone, last) &&
           programs_.contains(name.substr(0, name.size() - last.size() - 1));
  }

  /// Whether the name is WORD.NAME or NAME.WORD beside NAME.
  bool is_beside_weight(std::string_view name, const Parts& parts) const {
    const auto first = parts.front(), last = parts.back();
    const bool may_begin = is_among(of_weight, first) || (of_mindspore_ && is_of_weight(first));
    const auto before = name.size() - last.size() - 1;
    const bool may_end = is_of_weight(last) || (name[before] == '/' && is_of_tensorflow(last));
    return (may_begin && names_.contains(name.substr(first.size() + 1))) ||
           (may_end && names_.contains(name.substr(0, before)));
  }

  void add(const TypedName& tensor, NamesOfWeights& weights) {
    const auto name = tensor.name;
    constexpr Words<5> of_optimizer{
        "learning_rate", "global_step", "beta1_power", "beta2_power", "scale_sense"};
    names_.insert(name);
    of_mindspore_ = of_mindspore_ || is_among(of_optimizer, name) || is_of_group(name);
    const auto parts = parts_of(name);
    weights.add(name, parts);
    holds_more_ = holds_more_ || !tensor.is_number;
    holds_network_ =
        holds_network_ || (is_of_parameter(parts.back()) && !is_among(of_program, parts.front()));
  }

  /// Whether the name is NAME_exp_avg beside NAME.
  bool is_suffixed(std::string_view name, std::string_view last) const {
    for (auto end = last.find('_'); end != last.npos; end = last.find('_', end + 1)) {
      const auto counted = last.substr(end + 1);
      const auto weight = name.substr(0, name.size() - counted.size() - 1);
      const auto slot = without_count(counted);
      if ((is_of_any(slot) || is_among(of_weight, slot)) && names_.contains(weight)) return true;
    }
    return false;
  }

  /// Adds the words before an optimizer's layout, from the innermost on; those further out may be
  /// of a program that holds a network, too. NUMBER.SLOT is a layout unless a module's
  /// NUMBER.*.weight is beside it.
  void find_optimizers(std::string_view name,
                       const NamesOfWeights& weights,
                       std::set<std::string_view>& slots,
                       std::set<std::string_view>& modules) {
    const auto parts = parts_of(name);
    bool found = false, inner = false;
    for (std::size_t i = parts.size() - 1; i-- > 0;) {
      const auto rest = Span(parts).subspan(i + 1);
      const auto begin = name.substr(0, parts[i].end() - name.begin());
      const bool state = parts[i] == "state";
      const bool word = found ? is_called_optimizer(parts[i]) : may_be_optimizer(parts[i]);
      const bool in_word = word && (is_optimizers(rest) || weights.are_in_optimizer(rest));
      const bool in_state = state && weights.are_in_state(rest);
      if (in_word || in_state)
        (inner ? around_ : optimizers_).insert(begin);
      else if ((state || word) && is_number(rest[0]))
        add_numbered(rest, begin, slots, modules);
      found = found || in_word;
      inner = inner || in_word || is_whole(Span(parts).first(i + 1), in_state);
    }
  }

  /// Whether the parts end in what holds all of an optimizer, so that words before it need not be
  /// the optimizer's: opt_state, or "state" without an optimizer's word before it.
  static bool is_whole(Span parts, bool in_state) {
    return is_holder(parts.back()) ||
           (in_state && !end_in_optimizer(parts.first(parts.size() - 1)));
  }

  /// Adds what holds an optimizer and, outside of all optimizers, a network: it is none itself.
  void find_programs(std::string_view name) {
    const auto parts = parts_of(name);
    if (!is_of_parameter(parts.back()) || std::ranges::any_of(parts, is_of_any)) return;
    for (std::size_t i = parts.size() - 1; i-- > 0;) {
      const auto begin = name.substr(0, parts[i].end() - name.begin());
      if (optimizers_.contains(begin)) return;
      if (around_.contains(begin)) programs_.insert(begin);
    }
  }

  static void add_numbered(Span parts,
                           std::string_view begin,
                           std::set<std::string_view>& slots,
                           std::set<std::string_view>& modules) {
    if (is_of_parameter(parts.back()))
      modules.insert(begin);
    else if (parts.size() == 2 && is_slot(parts.back()))
      slots.insert(begin);
  }

  std::set<std::string_view> names_, optimizers_;
  std::set<std::string_view> around_;    // what holds an optimizer and is called as one or state
  std::set<std::string_view> programs_;  // of these, what holds a network, too
  bool of_mindspore_ = false;
  bool holds_more_ = false;     // than single numbers
  bool holds_network_ = false;  // a parameter beside what is called as a program's
};

bool is_statistic(std::string_view name) {
  constexpr Words<5> ends{
      "running_mean", "running_var", "moving_mean", "moving_variance", "num_batches_tracked"};
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

bool holds_codes(const TypedName& tensor) {
  const auto name = tensor.name, dtype = tensor.dtype;
  constexpr Words<4> packed{"qweight", "qzeros", "weight_packed", "g_idx"};
  const auto ends_so = [&](std::string_view end) {
    return name.ends_with(end) &&
           (name.size() == end.size() || name[name.size() - end.size() - 1] == '.');
  };
  const bool bytes = dtype == "U8" || dtype == "I8";
  return (dtype.starts_with("F") && !is_float_type(dtype)) || (bytes && name.ends_with("weight")) ||
         (!is_float_type(dtype) && std::ranges::any_of(packed, ends_so));
}

/// A kind of adapter, and the words behind its name that are parts of an update.
struct AdapterWords {
  std::string_view kind;
  Words<6> parts;
};

/// LoRA and its kin as PEFT, diffusers, kohya, torchtune, MLX, LyCORIS and NeMo name them.
constexpr std::array adapter_words{
    AdapterWords{"lora", {"a", "b", "down", "up", "embedding", "magnitude"}},
    AdapterWords{"loras", {"a", "b", "down", "up"}},
    AdapterWords{"loraa", {""}},
    AdapterWords{"lorab", {""}},
    AdapterWords{"hada", {"w", "t"}},
    AdapterWords{"loha", {"w", "t"}},
    AdapterWords{"lokr", {"w", "t"}},
    AdapterWords{"oft", {"blocks", "diag", "r", "s"}},
    AdapterWords{"boft", {"blocks", "r", "s"}},
    AdapterWords{"vera", {"lambda", "a", "b"}},
    AdapterWords{"adapter", {"linear_in", "linear_out"}}};

/// Whether the part of an adapter begins so: "a", and "in" of linear_in.
bool is_adapter_part(std::string_view part, std::string_view word, std::string_view next) {
  const auto mark = part.find('_');
  if (mark == part.npos) return part == word;
  return part.substr(0, mark) == word && part.substr(mark + 1) == next;
}

/// The text in a name by which a tensor may be a part of an adapter.
struct AdapterWord {
  std::string_view part;  // of the name: lora_A
  bool sure = false;      // no network of its own has such a name
  bool known = false;     // a part of a kind of adapter, not lora_ alone
};

/// Whether a network's own modules may be called so, too: block.oft.r, lora.embedding of LoRa's
/// radio.
bool may_be_module(std::string_view kind, std::string_view word) {
  constexpr Words<3> kinds{"oft", "boft", "vera"};
  return is_among(kinds, kind) || (kind == "lora" && (word == "embedding" || word == "magnitude"));
}

std::optional<AdapterWord> adapter_word(std::string_view name) {
  auto words = words_of(name);
  words.resize(words.size() + 2);
  for (std::size_t i = 0; i + 2 < words.size(); ++i) {
    for (const auto& [kind, parts] : adapter_words) {
      if (words[i].text != kind) continue;
      const bool whole = parts.front().empty();
      const bool found =
          whole || std::ranges::any_of(parts, [&](std::string_view part) {
            return !part.empty() && is_adapter_part(part, words[i + 1].text, words[i + 2].text);
          });
      if (!found) continue;
      const auto end =
          std::min(name.find_first_of("./", words[whole ? i : i + 1].end), name.size());
      return AdapterWord{name.substr(words[i].begin, end - words[i].begin),
                         whole || !may_be_module(kind, words[i + 1].text),
                         true};
    }
  }
  const auto parts = parts_of(name);
  const auto lora =
      std::ranges::find_if(parts, [](std::string_view part) { return part.starts_with("lora_"); });
  return lora == parts.end() ? std::nullopt : std::optional(AdapterWord{*lora});
}

/// The names of a file's weights, which say whether words that modules are called, too, are of an
/// adapter: all names have such words or PEFT's beginning, another part of the same module or the
/// weight that it changes stands beside.
class AdapterLayout {
 public:
  explicit AdapterLayout(const std::vector<std::string>& names)
      : of_peft_(all_begin_with(names, "base_model.model.")), names_(names.begin(), names.end()) {
    for (const auto& name : names) {
      const auto word = adapter_word(name);
      whole_ = whole_ && word;
      if (!word) continue;
      has_sure_ = has_sure_ || word->sure;
      if (word->known) parts_[module_of(name, *word)].insert(word->part);
    }
  }

  bool proves(std::string_view name, const AdapterWord& word) const {
    if (word.sure || whole_ || of_peft_) return true;
    if (!word.known) return has_sure_;
    const auto module = module_of(name, word);
    return parts_.at(module).size() > 1 ||
           names_.contains(std::string(module) + "base_layer.weight");
  }

 private:
  /// The name up to the word, with the dot.
  static std::string_view module_of(std::string_view name, const AdapterWord& word) {
    return name.substr(0, word.part.data() - name.data());
  }

  bool of_peft_, whole_ = true, has_sure_ = false;
  std::set<std::string, std::less<>> names_;
  std::unordered_map<std::string_view, std::set<std::string_view>> parts_;
};

constexpr Words<5> of_master_or_gradient{
    "master", "master_weights", "grads", "gradients", "grad_accum"};

using KnownNames = std::unordered_set<std::string_view>;

/// Whether a weight's name stands behind nothing but what an optimizer is called or holds:
/// grad.NAME, optimizer.master.NAME.
bool is_behind_slots(std::string_view name, const Parts& parts, const KnownNames& names) {
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const auto part = parts[i];
    const bool may_be_slot = is_of_weight(part) || is_among(of_optimizer_alone, part) ||
                             is_among(of_master_or_gradient, part) || may_be_optimizer(part);
    if (!may_be_slot && (i == 0 || !is_number(part))) return false;
    if (names.contains(name.substr(parts[i + 1].data() - name.data()))) return true;
  }
  return false;
}

/// Whether a slot stands behind a weight's name, with at most one word before the name:
/// lion.NAME.m.
bool is_before_slot(std::string_view name, const Parts& parts, const KnownNames& names) {
  const auto first = parts.front(), last = parts.back();
  if (parts.size() < 2 || !(is_of_weight(last) || is_among(of_optimizer_alone, last))) return false;
  const auto before = name.substr(0, name.size() - last.size() - 1);
  return names.contains(before) ||
         (parts.size() > 2 && names.contains(before.substr(first.size() + 1)));
}

}  // namespace

std::string adapter_part(std::string_view name) {
  const auto word = adapter_word(name);
  return word ? std::string(word->part) : std::string();
}

std::vector<std::string> adapter_parts(const std::vector<std::string>& names) {
  const AdapterLayout layout(names);
  return texts_of(names, [&](const std::string& name) {
    const auto word = adapter_word(name);
    return word && layout.proves(name, *word) ? std::string(word->part) : std::string();
  });
}

Role role_of(const TypedName& tensor) {
  const bool complex = tensor.dtype.starts_with("C");
  if (is_statistic(tensor.name)) return Role::statistic;
  if (holds_codes(tensor)) return Role::quantised;
  if (!is_float_type(tensor.dtype) && !complex) return Role::buffer;
  return adapter_part(tensor.name).empty() ? Role::weight : Role::adapter;
}

std::vector<Role> roles_of(const std::vector<TypedName>& tensors) {
  const TrainingState state(tensors);
  std::vector<Role> roles;
  for (const auto& tensor : tensors)
    roles.push_back(state.holds(tensor) ? Role::training_state : role_of(tensor));
  settle_adapters(tensors, roles);
  return roles;
}

void settle_adapters(const std::vector<TypedName>& tensors, std::vector<Role>& roles) {
  if (std::ranges::find(roles, Role::adapter) == roles.end()) return;
  std::vector<std::string> weights;
  for (std::size_t i = 0; i < roles.size(); ++i)
    if (is_weight(roles[i])) weights.emplace_back(tensors[i].name);
  const auto parts = adapter_parts(weights);
  auto part = parts.begin();
  for (auto& role : roles)
    if (is_weight(role)) role = (part++)->empty() ? Role::weight : Role::adapter;
}

std::vector<std::string> doubtful_names(const std::vector<std::string>& weights) {
  KnownNames names(weights.begin(), weights.end());
  for (const std::string_view name : weights)
    if (const auto parts = parts_of(name); parts.size() > 2 && is_among(wrappers, parts.front()))
      names.insert(name.substr(parts[1].data() - name.data()));
  const auto is_doubtful = [&](std::string_view name) {
    const auto parts = parts_of(name);
    if (is_behind_slots(name, parts, names) || is_before_slot(name, parts, names)) return true;
    const bool listed = is_among(parts, "vars") && is_number(parts.back());  // by Keras
    if (listed && may_be_optimizer(parts.front())) return true;
    const auto state = std::ranges::find(parts, "state");
    return parts.end() - state > 2 && is_number(state[1]) && !is_of_parameter(parts.back());
  };
  std::vector<std::string> doubtful;
  std::ranges::copy_if(weights, std::back_inserter(doubtful), is_doubtful);
  return doubtful;
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
  return formatted("{} tensor{} ({})",
                   names.size(),
                   names.size() == 1 ? "" : "s",
                   first_names(texts_of(names, printable), 3));
}

}  // namespace dimred::checkpoints
