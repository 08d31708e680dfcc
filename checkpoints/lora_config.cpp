#include "checkpoints/lora_config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;
using Settings = nlohmann::ordered_json;

constexpr std::string_view wrapper = "base_model.model.";

/// Whether a setting says nothing: null, false, empty.
bool is_unset(const Settings& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         (value.is_structured() && value.empty()) || (value.is_string() && value.empty());
}

/// Settings that let an adapter change more than W + s B A, or another W than the base's.
bool is_foreign(const std::string& name, const Settings& value) {
  constexpr std::array others{"layer_replication",
                              "target_parameters",
                              "trainable_token_indices",
                              "alora_invocation_tokens",
                              "ensure_weight_tying"};
  constexpr std::array harmless{"eva_config", "runtime_config"};
  if (is_unset(value)) return false;
  if (name == "init_lora_weights" && value.is_string()) {
    const auto way = lower_case(value.get<std::string>());
    constexpr std::array plain{"gaussian", "eva", "orthogonal"};
    return std::ranges::find(plain, way) == plain.end();
  }
  const bool feature = name.starts_with("use_") && name != "use_rslora";
  const bool config =
      name.ends_with("_config") && std::ranges::find(harmless, name) == harmless.end();
  return feature || config || std::ranges::find(others, name) != others.end();
}

/// Whether a setting is on or off.
bool is_switch(const std::string& name) {
  constexpr std::array others{
      "fan_in_fan_out", "inference_mode", "lora_bias", "ensure_weight_tying"};
  return name.starts_with("use_") || std::ranges::find(others, name) != others.end();
}

void require_lora(const LoraConfig& config) {
  const auto& json = config.json;
  require(json.is_object() && json.contains("peft_type"),
          "[{}] '{}' is not a configuration of PEFT: the key peft_type is missing",
          config.scope,
          config.file);
  const auto said = [](const Settings& value) {
    return printable(value.dump(-1, ' ', false, Settings::error_handler_t::replace));
  };
  const auto& kind = json["peft_type"];
  require(kind == "LORA",
          "[{}] '{}' has peft_type = {}, but dimred folds only LoRA and rsLoRA adapters",
          config.scope,
          config.file,
          said(kind));
  for (const auto& [name, value] : json.items())
    require(!is_switch(name) || !(value.is_number() || value.is_string()),
            "[{}] '{}' needs {} = true or false, received {}",
            config.scope,
            config.file,
            printable(name),
            said(value));
  for (const auto& [name, value] : json.items())
    require(!is_foreign(name, value),
            "[{}] '{}' has {} = {}, but dimred folds only plain LoRA and rsLoRA, W + s B A",
            config.scope,
            config.file,
            printable(name),
            said(value));
}

double lora_number(const LoraConfig& config, const Settings& json, const std::string& name) {
  require_environment(json.contains(name) && json[name].is_number(),
                      "[{}] '{}' is damaged: {} is not a number",
                      config.scope,
                      config.file,
                      printable(name));
  const auto number = json[name].get<double>();
  require_environment(number > 0 && std::isfinite(number),
                      "[{}] '{}' needs {} > 0, received {}",
                      config.scope,
                      config.file,
                      printable(name),
                      number_text(number));
  return number;
}

bool switch_at(const Settings& json, const char* name) {
  return json.contains(name) && json[name].is_boolean() && json[name].get<bool>();
}

ModulePatterns patterns_at(const LoraConfig& config, const char* name) {
  ModulePatterns patterns;
  const auto& json = config.json;
  if (!json.contains(name) || is_unset(json[name])) return patterns;
  require_environment(json[name].is_object(),
                      "[{}] '{}' is damaged: {} is not an object",
                      config.scope,
                      config.file,
                      name);
  const auto place = formatted("[{}] '{}': {}", config.scope, config.file, name);
  for (const auto& [key, value] : json[name].items())
    patterns.emplace_back(NamePattern("^(.*\\.)?(" + key + ")$", place),
                          lora_number(config, json[name], key));
  return patterns;
}

std::string without_wrapper(std::string_view name) {
  return std::string(name.starts_with(wrapper) ? name.substr(wrapper.size()) : name);
}

std::vector<std::string> lora_names(const LoraConfig& config, const char* name) {
  const auto& json = config.json;
  if (!json.contains(name) || is_unset(json[name])) return {};
  const auto is_text = [](const Settings& value) {
    return value.is_string() && !value.get_ref<const std::string&>().empty();
  };
  require_environment(json[name].is_array() && std::ranges::all_of(json[name], is_text),
                      "[{}] '{}' is damaged: {} is not a list of names",
                      config.scope,
                      config.file,
                      name);
  return json[name].get<std::vector<std::string>>();
}

double found_in(const ModulePatterns& patterns, const std::string& module, double otherwise) {
  const auto found = std::ranges::find_if(
      patterns, [&](const auto& entry) { return entry.first.searches(module); });
  return found == patterns.end() ? otherwise : found->second;
}

}  // namespace

double LoraConfig::scale_of(const std::string& module, std::int64_t rank_stored) const {
  const auto r = found_in(ranks, module, rank);
  require(r == static_cast<double>(rank_stored),
          "[{}] '{}' says rank {} for \"{}\", but lora_A and lora_B have rank {}",
          scope,
          file,
          number_text(r),
          printable(module),
          rank_stored);
  return scale_of(module);
}

double LoraConfig::scale_of(const std::string& module) const {
  const auto r = found_in(ranks, module, rank);
  return found_in(alphas, module, alpha) / (rank_stabilised ? std::sqrt(r) : r);
}

bool LoraConfig::trains_copy(std::string_view tensor) const {
  for (auto end = tensor.rfind('.'); end != tensor.npos && end > 0;
       end = tensor.rfind('.', end - 1))
    for (const auto& module : trained_whole)
      if (tensor.substr(0, end).ends_with(module)) return true;
  return false;
}

LoraConfig read_lora_config(const fs::path& folder, std::string_view scope) {
  LoraConfig config{.scope = std::string(scope), .file = folder / adapter_config_name};
  config.json =
      parse_ordered_json(InputFile(config.file).text(JsonLimits{}.bytes), config.file.string());
  require_lora(config);
  config.rank = lora_number(config, config.json, "r");
  config.alpha = lora_number(config, config.json, "lora_alpha");
  config.ranks = patterns_at(config, "rank_pattern");
  config.alphas = patterns_at(config, "alpha_pattern");
  config.trained_whole = lora_names(config, "modules_to_save");
  config.rank_stabilised = switch_at(config.json, "use_rslora");
  config.fan_in_fan_out = switch_at(config.json, "fan_in_fan_out");
  return config;
}

std::string name_in_base(std::string_view name) {
  if (const auto factor = lora_factor(name))
    return factor->module + (factor->side == LoraFactor::Side::bias ? ".bias" : ".weight");
  auto plain = without_wrapper(name);
  for (const std::string_view part : {".base_layer.", ".modules_to_save."})
    if (const auto at = plain.find(part); at != plain.npos) plain.erase(at, part.size() - 1);
  return plain;
}

std::optional<LoraFactor> lora_factor(std::string_view name) {
  using enum LoraFactor::Side;
  struct Ending {
    std::string_view text;
    LoraFactor::Side side;
    bool embedding;
  };
  constexpr std::array endings{Ending{".lora_A.weight", a, false},
                               Ending{".lora_B.weight", b, false},
                               Ending{".lora_B.bias", bias, false},
                               Ending{".lora_embedding_A", a, true},
                               Ending{".lora_embedding_B", b, true}};
  for (const auto& [text, side, embedding] : endings)
    if (name.ends_with(text))
      return LoraFactor{
          without_wrapper(name.substr(0, name.size() - text.size())), side, embedding};
  return {};
}

}  // namespace dimred::checkpoints
