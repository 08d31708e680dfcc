#include "checkpoints/verbs/adapter.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "checkpoints/float_sums.h"
#include "checkpoints/name_pattern.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/tied.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/option_values.h"
#include "support/text.h"

namespace dimred::verbs {
namespace {

namespace fs = std::filesystem;
using AdapterJson = nlohmann::ordered_json;
using checkpoints::StoredTensor;

constexpr std::string_view peft_prefix = "base_model.model.";

/// Whether an entry of a configuration asks for something.
bool is_asked_for(const AdapterJson& value) {
  if (value.is_boolean()) return value.get<bool>();
  return !value.is_null() && !((value.is_structured() || value.is_string()) && value.empty());
}

bool is_asked_for(const AdapterJson& config, const std::string& name) {
  return config.contains(name) && is_asked_for(config[name]);
}

/// Initialisations that leave the base weights as they are.
bool keeps_base(const AdapterJson& initialisation) {
  if (!initialisation.is_string()) return true;
  const auto text = initialisation.get<std::string>();
  return text == "gaussian" || text == "eva" || text == "orthogonal";
}

void require_plain_lora(const AdapterJson& config, const fs::path& file) {
  require(config.is_object() && config.contains("peft_type"),
          "[convert] '{}' is no configuration of PEFT: it has no peft_type",
          file);
  const auto refuse_entry = [&](const std::string& name) {
    refuse("[convert] '{}' has {} = {}; LoRA and rsLoRA alone are folded",
           file,
           printable(name),
           printable(config[name].dump(-1, ' ', false, AdapterJson::error_handler_t::replace)));
  };
  if (config["peft_type"] != "LORA") refuse_entry("peft_type");
  for (const auto& [name, value] : config.items())
    if (name.starts_with("use_") && name != "use_rslora" && is_asked_for(value)) refuse_entry(name);
  for (const auto* name : {"lora_bias",
                           "layer_replication",
                           "target_parameters",
                           "trainable_token_indices",
                           "alora_invocation_tokens",
                           "arrow_config"})
    if (is_asked_for(config, name)) refuse_entry(name);
  if (config.contains("init_lora_weights") && !keeps_base(config["init_lora_weights"]))
    refuse_entry("init_lora_weights");
}

/// Whether PEFT takes the pattern's value for the module: at its name's end, behind a dot.
bool matches_module(const std::string& pattern, const std::string& module, const fs::path& file) {
  return checkpoints::NamePattern("^(?:.*\\.)?(?:" + pattern + ")$", file.string())
      .searches(module);
}

/// The number that a pattern of the configuration (rank_pattern) has for a module, else the one of
/// all (r).
double number_for(const AdapterJson& config,
                  const char* patterns,
                  const char* common,
                  const std::string& module,
                  const fs::path& file) {
  const auto number = [&](const AdapterJson& value, const char* name) {
    require(value.is_number(), "[convert] '{}' needs {} as numbers", file, name);
    return value.get<double>();
  };
  if (is_asked_for(config, patterns)) {
    require(config[patterns].is_object(), "[convert] '{}' needs {} as a table", file, patterns);
    for (const auto& [pattern, value] : config[patterns].items())
      if (matches_module(pattern, module, file)) return number(value, patterns);
  }
  require(config.contains(common), "[convert] '{}' says no {}", file, common);
  return number(config[common], common);
}

/// A module's factors, while they are looked for.
struct Factors {
  std::optional<std::size_t> a, b;
  bool embedding = false;
};

struct FactorEnding {
  std::string_view text;
  std::optional<std::size_t> Factors::*factor;
  bool embedding;
};

constexpr FactorEnding factor_endings[] = {{".lora_A.weight", &Factors::a, false},
                                           {".lora_B.weight", &Factors::b, false},
                                           {".lora_embedding_A", &Factors::a, true},
                                           {".lora_embedding_B", &Factors::b, true}};

/// Drops ".base_layer" and ".modules_to_save", which PEFT puts between a module and its tensors.
std::string weight_name(std::string name) {
  for (const std::string_view part : {".base_layer.", ".modules_to_save."})
    if (const auto at = name.find(part); at != std::string::npos) name.erase(at, part.size() - 1);
  return name;
}

using ModuleFactors = std::map<std::string, Factors>;

/// Sorts an adapter's tensors: into the factors of modules, and what replaces a tensor.
ModuleFactors sort_tensors(Adapter& adapter) {
  ModuleFactors modules;
  const auto& tensors = adapter.checkpoint.tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::string name = tensors[i].name;
    if (name.starts_with(peft_prefix)) name.erase(0, peft_prefix.size());
    const auto ending = std::ranges::find_if(
        factor_endings, [&](const auto& known) { return name.ends_with(known.text); });
    if (ending != std::end(factor_endings)) {
      auto& factors = modules[name.substr(0, name.size() - ending->text.size())];
      factors.*(ending->factor) = i;
      factors.embedding = ending->embedding;
      continue;
    }
    require(
        name.find("lora_") == std::string::npos &&
            name.find("trainable_tokens") == std::string::npos,
        "[convert] '{}' has \"{}\", which is no part of LoRA or rsLoRA; no other kind is folded",
        adapter.folder,
        printable(tensors[i].name));
    adapter.replacements.push_back({weight_name(name), i});
  }
  return modules;
}

/// The rank that both factors have. A convolution's factors have more dimensions; those of B behind
/// the second are 1.
std::int64_t rank_of(const StoredTensor& a, const StoredTensor& b, const fs::path& folder) {
  const bool matrices = a.shape.size() >= 2 && b.shape.size() >= 2;
  const bool fit = matrices && a.shape[0] > 0 && a.shape[0] == b.shape[1] &&
                   b.elements() == b.shape[0] * b.shape[1];
  require(fit,
          "[convert] '{}': \"{}\" and \"{}\" have no rank in common",
          folder,
          printable(a.name),
          printable(b.name));
  for (const auto* factor : {&a, &b})
    require(checkpoints::is_float_type(factor->dtype),
            "[convert] '{}' has \"{}\" as {}; needs F64, F32, BF16 or F16",
            folder,
            printable(factor->name),
            factor->dtype);
  return a.shape[0];
}

void add_updates(Adapter& adapter, const AdapterJson& config, const fs::path& file) {
  for (const auto& [module, factors] : sort_tensors(adapter)) {
    require(factors.a && factors.b,
            "[convert] '{}' has only one of the two factors of \"{}\"",
            adapter.folder,
            printable(module));
    const auto& tensors = adapter.checkpoint.tensors;
    const auto rank = rank_of(tensors[*factors.a], tensors[*factors.b], adapter.folder);
    const auto said = number_for(config, "rank_pattern", "r", module, file);
    require(said == static_cast<double>(rank),
            "[convert] '{}' says rank {} of \"{}\", whose factors have {}",
            file,
            number_text(said),
            printable(module),
            rank);
    const auto alpha = number_for(config, "alpha_pattern", "lora_alpha", module, file);
    adapter.updates.push_back({module + ".weight",
                               *factors.a,
                               *factors.b,
                               lora_scale(alpha, rank, is_asked_for(config, "use_rslora")),
                               factors.embedding || is_asked_for(config, "fan_in_fan_out")});
  }
}

using TensorPlaces = std::map<std::string_view, std::size_t>;

/// An adapter's names of the weights it changes.
std::vector<std::string> changed_names(const Adapter& adapter) {
  std::vector<std::string> names;
  for (const auto& update : adapter.updates) names.push_back(update.weight);
  for (const auto& replacement : adapter.replacements) names.push_back(replacement.weight);
  return names;
}

/// How the names of an adapter become those of a checkpoint.
struct PrefixChange {
  std::string dropped, added;
  std::string applied(const std::string& name) const {
    return name.starts_with(dropped) ? added + name.substr(dropped.size()) : name;
  }
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
      if (const PrefixChange add{{}, std::string(name.substr(0, name.size() - first.size()))};
          fits(add))
        return add;
  return {};
}

std::string shape_of(const StoredTensor& tensor) {
  const auto extent = [](std::int64_t length) { return std::to_string(length); };
  return "[" + joined(tensor.shape, ", ", extent) + "]";
}

void require_update_fits(const Adapter& adapter,
                         const AdapterUpdate& update,
                         const StoredTensor& weight) {
  const auto& a = adapter.checkpoint.tensors[update.a];
  const auto& b = adapter.checkpoint.tensors[update.b];
  const auto rows = update.transposed ? a.elements() / a.shape[0] : b.shape[0];
  const bool fits = !weight.shape.empty() && weight.shape[0] == rows &&
                    weight.elements() == a.elements() / a.shape[0] * b.shape[0];
  require(fits,
          "[convert] \"{}\" is {}; the adapter's factors {} and {} do not fit{}",
          printable(weight.name),
          shape_of(weight),
          shape_of(b),
          shape_of(a),
          update.transposed ? " it as [in, out]" : "");
  require(checkpoints::is_float_type(weight.dtype),
          "[convert] \"{}\" is {}; fold an adapter into the weights before they are quantised",
          printable(weight.name),
          weight.dtype);
}

void require_replacement_fits(const StoredTensor& from, const StoredTensor& weight) {
  const bool floats =
      checkpoints::is_float_type(from.dtype) && checkpoints::is_float_type(weight.dtype);
  require(from.shape == weight.shape && (floats || from.dtype == weight.dtype),
          "[convert] the adapter's \"{}\" is {} {}, in the place of \"{}\", {} {}",
          printable(from.name),
          from.dtype,
          shape_of(from),
          printable(weight.name),
          weight.dtype,
          shape_of(weight));
}

}  // namespace

Adapter open_adapter(const fs::path& folder) {
  const auto file = folder / "adapter_config.json";
  require(fs::is_regular_file(file),
          "[convert] --adapter needs a folder of PEFT with adapter_config.json, received '{}'",
          folder);
  Adapter adapter{.folder = folder};
  adapter.config.add(file);
  const auto config = parse_ordered_json(InputFile(file).text(JsonLimits{}.bytes), file.string());
  require_plain_lora(config, file);
  adapter.checkpoint = checkpoints::open_checkpoint(folder, {.scope = "convert"});
  add_updates(adapter, config, file);
  return adapter;
}

Folds folds_of(const Adapter& adapter, const checkpoints::Checkpoint& source) {
  TensorPlaces places;
  for (std::size_t i = 0; i < source.tensors.size(); ++i) places[source.tensors[i].name] = i;
  const auto change = prefix_change(changed_names(adapter), places);
  Folds folds{.tensors = std::vector<TensorFold>(source.tensors.size()), .remark = {}};
  const auto place_of = [&](const std::string& weight) {
    const auto found = places.find(change.applied(weight));
    require(found != places.end(),
            "[convert] '{}' has no tensor \"{}\", which the adapter '{}' changes",
            source.path,
            printable(weight),
            adapter.folder);
    return found->second;
  };
  const auto groups = checkpoints::tied_groups(source.tensors);
  for (std::size_t i = 0; i < adapter.updates.size(); ++i) {
    const auto place = place_of(adapter.updates[i].weight);
    require_update_fits(adapter, adapter.updates[i], source.tensors[place]);
    for (const auto tied : checkpoints::tied_with(groups, place))
      folds.tensors[tied].updates.push_back(i);
  }
  for (std::size_t i = 0; i < adapter.replacements.size(); ++i) {
    const auto& [weight, tensor] = adapter.replacements[i];
    const auto place = place_of(weight);
    require_replacement_fits(adapter.checkpoint.tensors[tensor], source.tensors[place]);
    folds.tensors[place].replacement = i;
  }
  if (!change.dropped.empty() || !change.added.empty())
    folds.remark = formatted("the adapter's names are found {} \"{}\"",
                             change.added.empty() ? "without" : "behind",
                             printable(change.added + change.dropped));
  return folds;
}

LowRankUpdate read_update(const Adapter& adapter,
                          const AdapterUpdate& update,
                          const checkpoints::TensorReader& reader) {
  const auto values = [&](const StoredTensor& tensor) {
    std::vector<std::byte> bytes(tensor.bytes());
    reader.read(tensor, 0, bytes);
    std::vector<double> result(tensor.elements());
    checkpoints::add_stored(tensor.dtype, bytes, 1, true, result);
    return result;
  };
  const auto& a = adapter.checkpoint.tensors[update.a];
  const auto& b = adapter.checkpoint.tensors[update.b];
  const auto rank = a.shape[0];
  LowRankUpdate result{.scale = update.scale, .rank = rank};
  result.columns = update.transposed ? b.shape[0] : a.elements() / rank;
  result.left = update.transposed ? transposed(values(a), rank) : values(b);
  result.right = update.transposed ? transposed(values(b), b.shape[0]) : values(a);
  return result;
}

}  // namespace dimred::verbs
