#include "checkpoints/lora_fold.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "checkpoints/safetensors.h"
#include "checkpoints/shape.h"
#include "checkpoints/side_files.h"
#include "checkpoints/tied.h"
#include "checkpoints/weight_names.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/printable.h"

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

constexpr auto tie_setting = "tie_word_embeddings";

bool ends_as(std::string_view name, std::string_view end) {
  return name == end || (name.ends_with(end) && name[name.size() - end.size() - 1] == '.');
}

bool is_head(std::string_view name) { return ends_as(name, "lm_head.weight"); }

/// As networks of transformers name it.
bool is_embedding(std::string_view name) {
  constexpr std::array names{"embed_tokens.weight",
                             "wte.weight",
                             "word_embeddings.weight",
                             "embed_in.weight",
                             "shared.weight"};
  return std::ranges::any_of(names, [&](const auto* end) { return ends_as(name, end); });
}

/// The configuration beside a base; null: there is none.
nlohmann::json config_of(const Checkpoint& base) {
  const auto file = base.folder() / "config.json";
  if (base.folder().empty() || !std::filesystem::is_regular_file(file)) return {};
  return read_settings(file);
}

/// Whether a model ties its head to its embedding; true where its configuration does not say, which
/// is transformers' default.
bool is_tied(const nlohmann::json& config) {
  if (!config.is_object()) return false;
  if (const auto said = config.find(tie_setting); said != config.end()) return *said != false;
  const auto part = config.find("text_config");
  return part == config.end() || is_tied(*part);
}

/// Whether the model of a configuration has a head of the size of its vocabulary.
bool has_head(const nlohmann::json& config) {
  if (!config.is_object() || !config.contains("architectures")) return false;
  const auto name = config["architectures"].dump();
  return name.find("ForCausalLM") != name.npos || name.find("LMHead") != name.npos ||
         name.find("ForConditionalGeneration") != name.npos;
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
  FoldPlan(const Checkpoint& adapter, const LoraConfig& config, Checkpoint& base)
      : adapter_(adapter), config_(config), base_(base), tied_(tied_groups(base.tensors)) {
    for (std::size_t i = 0; i < base.tensors.size(); ++i) places_[base.tensors[i].name] = i;
    std::vector<std::string> names;  // that the base has, but for a prefix
    for (const auto& tensor : adapter.tensors)
      if (const auto name = name_in_base(tensor.name); !is_copy(tensor) && !is_head(name))
        names.push_back(name);
    change_ = prefix_change(names, places_);
    folds_.tensors.resize(base.tensors.size());
  }

  LoraFolds made() {
    for (std::size_t i = 0; i < adapter_.tensors.size(); ++i) take(i);
    for (const auto& [module, layer] : layers_) add_update(module, layer);
    require_oriented();
    require_head_stays();
    lend();
    if (!change_.is_none())
      folds_.remarks.push_back(formatted("the checkpoint has the adapter's names {} \"{}\"",
                                         change_.added.empty() ? "without" : "behind",
                                         printable(change_.added + change_.dropped)));
    if (folds_.unties)
      folds_.remarks.push_back(formatted(
          "the head and the embedding are no longer tied, so {} is now false", tie_setting));
    return std::move(folds_);
  }

 private:
  /// Whether PEFT trained a copy of the tensor.
  bool is_copy(const StoredTensor& tensor) const {
    return !lora_factor(tensor.name) && config_.trains_copy(name_in_base(tensor.name));
  }

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
    const auto name = name_in_base(stored.name);
    if (is_copy(stored) && !places_.contains(change_.applied(name))) {
      require_plain_names(name);
      new_.push_back(tensor);
      return;
    }
    const auto place = place_of(name);
    require_fits(stored, base_.tensors[place]);
    if (factor)
      folds_.tensors[place].bias = tensor;
    else
      put(tensor, place, is_copy(stored));
  }

  /// Puts a whole tensor in the place of one of the base, and of those tied to it unless it is a
  /// copy.
  void put(std::size_t tensor, std::size_t place, bool copy) {
    const auto all = tied_with(tied_, place);
    folds_.unties |= copy && all.size() > 1;
    for (const auto each : copy ? std::vector{place} : all) {
      auto& instead = folds_.tensors[each].instead;
      require(
          !instead || copy || is_copy(adapter_.tensors[*instead]) || same_values(*instead, tensor),
          "[{}] '{}' has different values for \"{}\" and \"{}\", but these are one tied tensor in "
          "'{}'",
          config_.scope,
          adapter_.path,
          printable(adapter_.tensors[tensor].name),
          printable(adapter_.tensors[instead.value_or(tensor)].name),
          base_.path);
      if (!instead || copy) instead = tensor;
    }
  }

  bool same_values(std::size_t a, std::size_t b) const {
    constexpr std::int64_t block = std::int64_t{1} << 16;
    const auto& one = adapter_.tensors[a];
    const auto& other = adapter_.tensors[b];
    if (one.dtype != other.dtype || one.shape != other.shape) return false;
    const TensorReader reader(adapter_);
    const auto unit = one.unit();
    const auto count = one.bytes() / unit;
    for (std::int64_t first = 0; first < count; first += block) {
      std::vector<std::byte> bytes(std::min(block, count - first) * unit), others(bytes.size());
      reader.read(one, first, bytes);
      reader.read(other, first, others);
      if (bytes != others) return false;
    }
    return true;
  }

  /// The prefix is known only for tensors that the base has, so it cannot name a new tensor.
  void require_plain_names(const std::string& name) const {
    require(change_.is_none(),
            "[{}] the adapter '{}' adds the tensor \"{}\", but the checkpoint '{}' names its "
            "tensors {} the prefix \"{}\", so dimred cannot know the name of the new tensor; first "
            "rename the checkpoint's tensors to the adapter's names with dimred convert --rename",
            config_.scope,
            adapter_.path,
            printable(name),
            base_.path,
            change_.added.empty() ? "without" : "with",
            printable(change_.added + change_.dropped));
  }

  std::size_t place_of(const std::string& name) {
    if (const auto found = places_.find(change_.applied(name)); found != places_.end())
      return found->second;
    std::string why;
    if (is_head(name)) {
      const auto embedding = tied_embedding(why);
      changes_tied_head_ = embedding.has_value();
      if (embedding) return *embedding;
    }
    refuse("[{}] '{}' has no tensor \"{}\", but the adapter '{}' changes this tensor{}",
           config_.scope,
           base_.path,
           printable(name),
           adapter_.path,
           why);
  }

  /// The embedding to which a head is tied that the base has not saved; else `why` it is not known.
  std::optional<std::size_t> tied_embedding(std::string& why) const {
    const auto config = config_of(base_);
    if (!is_tied(config)) {
      why = config.is_null() ? "; no config.json says to which tensor the head is tied"
                             : formatted("; config.json has {} = false", tie_setting);
      return {};
    }
    std::vector<std::size_t> embeddings;
    for (std::size_t i = 0; i < base_.tensors.size(); ++i)
      if (is_embedding(base_.tensors[i].name)) embeddings.push_back(i);
    if (embeddings.size() == 1) return embeddings.front();
    why = formatted("; the head could be tied to {} embeddings", embeddings.size());
    return {};
  }

  /// PEFT keeps the old embedding as the head where a copy of the embedding was trained, under a
  /// name that only the model knows.
  void require_head_stays() const {
    const auto in_base = [&](const auto& tensor) { return is_head(tensor.name); };
    const auto is_new = [&](std::size_t tensor) { return is_head(adapter_.tensors[tensor].name); };
    if (std::ranges::any_of(base_.tensors, in_base) || std::ranges::any_of(new_, is_new)) return;
    const auto copied = std::ranges::find_if(adapter_.tensors, [&](const auto& tensor) {
      return is_copy(tensor) && is_embedding(tensor.name);
    });
    if (copied == adapter_.tensors.end()) return;
    const auto config = config_of(base_);
    require(!has_head(config) || !is_tied(config),
            "[{}] '{}' has a trained copy of the embedding \"{}\", but in '{}' the head shares the "
            "embedding's weights, so folding would also change the head; fold the adapter with "
            "PEFT, which keeps the old embedding as the head",
            config_.scope,
            adapter_.path,
            printable(name_in_base(copied->name)),
            base_.path);
  }

  /// Makes the new tensors the last ones of the base.
  void lend() {
    if (new_.empty()) return;
    std::vector<std::string> names;
    for (const auto tensor : new_) {
      auto lent = adapter_.tensors[tensor];
      lent.name = name_in_base(lent.name);
      for (auto& box : lent.boxes) box.file += base_.files.size();
      folds_.unties |= is_head(lent.name);
      names.push_back(lent.name);
      base_.tensors.push_back(std::move(lent));
      folds_.tensors.push_back({.instead = tensor});
    }
    base_.files.insert(base_.files.end(), adapter_.files.begin(), adapter_.files.end());
    base_.lent = adapter_.files.size();
    folds_.remarks.push_back(formatted("new tensors from the adapter: {}", count_and_names(names)));
  }

  void require_known(const StoredTensor& stored) const {
    const bool known =
        lora_factor(stored.name) || (stored.name.find("lora_") == stored.name.npos &&
                                     stored.name.find("trainable_tokens") == stored.name.npos);
    require(known,
            "[{}] '{}' has the tensor \"{}\", which is not a part of LoRA or rsLoRA; dimred folds "
            "only these two kinds",
            config_.scope,
            adapter_.path,
            printable(stored.name));
  }

  void require_fits(const StoredTensor& from, const StoredTensor& weight) const {
    const bool floats = is_float_type(from.dtype) && is_float_type(weight.dtype);
    require(from.shape == weight.shape && (floats || from.dtype == weight.dtype),
            "[{}] the adapter's \"{}\" is {} {}, but the tensor to replace, \"{}\", is {} {}",
            config_.scope,
            printable(from.name),
            from.dtype,
            extents_text(from.shape),
            printable(weight.name),
            weight.dtype,
            extents_text(weight.shape));
  }

  /// PEFT merges into the one weight that tied tensors are.
  void add_update(const std::string& module, LoraLayer layer) {
    require(layer.a && layer.b,
            "[{}] '{}' has only one of the factors lora_A and lora_B of \"{}\"",
            config_.scope,
            adapter_.path,
            printable(module));
    (void)config_.scale_of(module, rank_of(layer));  // refuses another rank, in time
    layer.weight = place_of(module + ".weight");
    const LoraUpdate update{module, *layer.a, *layer.b, is_transposed(layer)};
    for (const auto tensor : tied_with(tied_, layer.weight)) {
      auto& fold = folds_.tensors[tensor];
      const bool apart = fold.instead && is_copy(adapter_.tensors[*fold.instead]);
      if (tensor == layer.weight || !apart) fold.updates.push_back(update);
    }
  }

  /// The rank that both factors have. A convolution's factors have more dimensions; those of B
  /// behind the second are 1.
  std::int64_t rank_of(const LoraLayer& layer) const {
    const auto& a = adapter_.tensors[*layer.a];
    const auto& b = adapter_.tensors[*layer.b];
    const bool fit = a.shape.size() >= 2 && b.shape.size() >= 2 && a.shape[0] > 0 &&
                     a.shape[0] == b.shape[1] && b.elements() == b.shape[0] * b.shape[1];
    require(fit,
            "[{}] '{}': the shapes of \"{}\" and \"{}\" do not have the same LoRA rank",
            config_.scope,
            adapter_.path,
            printable(a.name),
            printable(b.name));
    for (const auto* factor : {&a, &b})
      require(is_float_type(factor->dtype),
              "[{}] '{}' has \"{}\" as {}, but a LoRA factor needs F64, F32, BF16 or F16",
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
            "[{}] \"{}\" has the shape {}, but the adapter's factors have the shapes {} and {}",
            config_.scope,
            printable(weight.name),
            extents_text(weight.shape),
            extents_text(b.shape),
            extents_text(a.shape));
    require(is_float_type(weight.dtype),
            "[{}] \"{}\" has the quantised type {}; fold the adapter into the unquantised weights "
            "instead",
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
        "[{}] '{}' says fan_in_fan_out = {}, but the shape of \"{}\" contradicts this, so dimred "
        "cannot know whether the square matrix \"{}\" is stored transposed; fold the adapter with "
        "PEFT",
        config_.scope,
        config_.file,
        config_.fan_in_fan_out ? "true" : "false",
        printable(seen_.contradicts->name),
        printable(seen_.square->name));
  }

  const Checkpoint& adapter_;
  const LoraConfig& config_;
  Checkpoint& base_;
  TiedGroups tied_;
  TensorPlaces places_;
  PrefixChange change_;
  std::map<std::string, LoraLayer> layers_;  // by module
  Orientations seen_;
  bool changes_tied_head_ = false;  // which the base has not saved
  std::vector<std::size_t> new_;    // copies that the base lacks
  LoraFolds folds_;
};

}  // namespace

LoraFolds lora_folds(const Checkpoint& adapter, const LoraConfig& config, Checkpoint& base) {
  return FoldPlan(adapter, config, base).made();
}

}  // namespace dimred::checkpoints
