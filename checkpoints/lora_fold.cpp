#include "checkpoints/lora_fold.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "checkpoints/safetensors.h"
#include "checkpoints/tied.h"
#include "support/errors.h"
#include "support/option_values.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

/// Places of a base's tensors by their names.
using TensorPlaces = std::map<std::string, std::size_t, std::less<>>;

/// How the names of an adapter become those of a base.
struct PrefixChange {
  std::string dropped, added;
  std::string applied(const std::string& name) const {
    return name.starts_with(dropped) ? added + name.substr(dropped.size()) : name;
  }
  bool is_none() const { return dropped.empty() && added.empty(); }
};

/// The change by which all names are found: a model with a head holds the other one under a name.
PrefixChange prefix_change(const std::vector<std::string>& names, const TensorPlaces& places) {
  const auto fits = [&](const PrefixChange& change) {
    return std::ranges::all_of(
        names, [&](const auto& name) { return places.contains(change.applied(name)); });
  };
  if (names.empty() || fits({})) return {};
  const auto& first = names.front();
  if (const PrefixChange drop{first.substr(0, first.find('.') + 1), {}}; fits(drop)) return drop;
  for (const auto& [name, place] : places)
    if (name.ends_with("." + first))
      if (const PrefixChange add{{}, name.substr(0, name.size() - first.size())}; fits(add))
        return add;
  return {};
}

std::string lora_shape(const StoredTensor& tensor) {
  const auto extent = [](std::int64_t length) { return std::to_string(length); };
  return "[" + joined(tensor.shape, ", ", extent) + "]";
}

/// A module's factors and the base's weight, while they are looked for.
struct LoraLayer {
  std::optional<std::size_t> a, b;
  std::size_t weight = 0;
  bool embedding = false;
};

/// How the layers of an adapter are stored, for one that could be either way.
struct Orientations {
  const StoredTensor* square = nullptr;       // a linear layer's
  const StoredTensor* contradicts = nullptr;  // stored otherwise than fan_in_fan_out says
};

class FoldPlan {
 public:
  FoldPlan(const Checkpoint& adapter, const LoraConfig& config, const Checkpoint& base)
      : adapter_(adapter), config_(config), base_(base), tied_(tied_groups(base.tensors)) {
    for (std::size_t i = 0; i < base.tensors.size(); ++i) places_[base.tensors[i].name] = i;
    std::vector<std::string> names;
    for (const auto& tensor : adapter.tensors) names.push_back(name_in_base(tensor.name));
    change_ = prefix_change(names, places_);
    folds_.tensors.resize(base.tensors.size());
  }

  LoraFolds made() {
    for (std::size_t i = 0; i < adapter_.tensors.size(); ++i) take(i);
    for (const auto& [module, layer] : layers_) add_update(module, layer);
    require_oriented();
    if (!change_.is_none())
      folds_.remarks.push_back(formatted("the adapter's names are found {} \"{}\"",
                                         change_.added.empty() ? "without" : "behind",
                                         printable(change_.added + change_.dropped)));
    return std::move(folds_);
  }

 private:
  /// Takes a tensor of the adapter: a factor, which waits for the other one, or what is added to or
  /// stands for a tensor of the base.
  void take(std::size_t tensor) {
    const auto& stored = adapter_.tensors[tensor];
    const auto factor = lora_factor(stored.name);
    if (factor && factor->side != LoraFactor::Side::bias) {
      auto& layer = layers_[factor->module];
      (factor->side == LoraFactor::Side::a ? layer.a : layer.b) = tensor;
      layer.embedding = factor->embedding;
      return;
    }
    require_known(stored);
    const auto place = place_of(name_in_base(stored.name));
    require_fits(stored, base_.tensors[place]);
    auto& fold = folds_.tensors[place];
    (factor ? fold.bias : fold.instead) = tensor;
  }

  std::size_t place_of(const std::string& name) const {
    const auto found = places_.find(change_.applied(name));
    require(found != places_.end(),
            "[{}] '{}' has no tensor \"{}\", which the adapter '{}' changes",
            config_.scope,
            base_.path,
            printable(name),
            adapter_.path);
    return found->second;
  }

  void require_known(const StoredTensor& stored) const {
    const bool known =
        lora_factor(stored.name) || (stored.name.find("lora_") == stored.name.npos &&
                                     stored.name.find("trainable_tokens") == stored.name.npos);
    require(known,
            "[{}] '{}' has \"{}\", which is no part of LoRA or rsLoRA; no other kind is folded",
            config_.scope,
            adapter_.path,
            printable(stored.name));
  }

  void require_fits(const StoredTensor& from, const StoredTensor& weight) const {
    const bool floats = is_float_type(from.dtype) && is_float_type(weight.dtype);
    require(from.shape == weight.shape && (floats || from.dtype == weight.dtype),
            "[{}] the adapter's \"{}\" is {} {}, in the place of \"{}\", {} {}",
            config_.scope,
            printable(from.name),
            from.dtype,
            lora_shape(from),
            printable(weight.name),
            weight.dtype,
            lora_shape(weight));
  }

  /// PEFT merges into the one weight that tied tensors are.
  void add_update(const std::string& module, LoraLayer layer) {
    require(layer.a && layer.b,
            "[{}] '{}' has only one of the two factors of \"{}\"",
            config_.scope,
            adapter_.path,
            printable(module));
    (void)config_.scale_of(module, rank_of(layer));  // refuses another rank, in time
    layer.weight = place_of(module + ".weight");
    const LoraUpdate update{module, *layer.a, *layer.b, is_transposed(layer)};
    for (const auto tensor : tied_with(tied_, layer.weight))
      folds_.tensors[tensor].updates.push_back(update);
  }

  /// The rank that both factors have. A convolution's have more dimensions, of which those of B
  /// behind the second are 1.
  std::int64_t rank_of(const LoraLayer& layer) const {
    const auto& a = adapter_.tensors[*layer.a];
    const auto& b = adapter_.tensors[*layer.b];
    const bool fit = a.shape.size() >= 2 && b.shape.size() >= 2 && a.shape[0] > 0 &&
                     a.shape[0] == b.shape[1] && b.elements() == b.shape[0] * b.shape[1];
    require(fit,
            "[{}] '{}': \"{}\" and \"{}\" have no rank in common",
            config_.scope,
            adapter_.path,
            printable(a.name),
            printable(b.name));
    for (const auto* factor : {&a, &b})
      require(is_float_type(factor->dtype),
              "[{}] '{}' has \"{}\" as {}; needs F64, F32, BF16 or F16",
              config_.scope,
              adapter_.path,
              printable(factor->name),
              factor->dtype);
    return a.shape[0];
  }

  bool is_transposed(const LoraLayer& layer) {
    const auto& a = adapter_.tensors[*layer.a];
    const auto& b = adapter_.tensors[*layer.b];
    const auto& weight = base_.tensors[layer.weight];
    const auto rows = b.shape[0], columns = a.elements() / rank_of(layer);
    const bool plain = !layer.embedding && !weight.shape.empty() && weight.shape[0] == rows &&
                       weight.elements() == rows * columns;
    const bool turned = weight.shape == std::vector{columns, rows};
    require(plain || turned,
            "[{}] \"{}\" is {}; the adapter's factors {} and {} do not fit",
            config_.scope,
            printable(weight.name),
            lora_shape(weight),
            lora_shape(b),
            lora_shape(a));
    require(is_float_type(weight.dtype),
            "[{}] \"{}\" is {}; fold an adapter into the weights before they are quantised",
            config_.scope,
            printable(weight.name),
            weight.dtype);
    if (plain && turned) seen_.square = &weight;
    const bool linear = !layer.embedding && weight.shape.size() == 2;
    if (linear && plain != turned && turned != config_.fan_in_fan_out) seen_.contradicts = &weight;
    return plain && turned ? config_.fan_in_fan_out : turned;
  }

  /// PEFT writes fan_in_fan_out as the last layer has it, whatever the others have.
  void require_oriented() const {
    if (seen_.square == nullptr || seen_.contradicts == nullptr) return;
    refuse(
        "[{}] '{}' says fan_in_fan_out {}, and \"{}\" is stored otherwise: the square \"{}\" could "
        "be stored either way; fold the adapter by PEFT",
        config_.scope,
        config_.file,
        config_.fan_in_fan_out ? "true" : "false",
        printable(seen_.contradicts->name),
        printable(seen_.square->name));
  }

  const Checkpoint& adapter_;
  const LoraConfig& config_;
  const Checkpoint& base_;
  TiedGroups tied_;
  TensorPlaces places_;
  PrefixChange change_;
  std::map<std::string, LoraLayer> layers_;  // by module
  Orientations seen_;
  LoraFolds folds_;
};

}  // namespace

LoraFolds lora_folds(const Checkpoint& adapter, const LoraConfig& config, const Checkpoint& base) {
  return FoldPlan(adapter, config, base).made();
}

}  // namespace dimred::checkpoints
