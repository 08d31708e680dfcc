#include "merge/lora_config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/option_values.h"
#include "support/text.h"

namespace dimred::merge {
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
                              "alora_invocation_tokens"};
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

void require_lora(const Settings& json, const fs::path& file) {
  require_environment(
      json.is_object() && json.contains("peft_type") && json["peft_type"].is_string(),
      "[merge] '{}' is damaged: it names no peft_type",
      file);
  const auto kind = json["peft_type"].get<std::string>();
  require(
      kind == "LORA",
      "[merge] needs adapters of LoRA, received '{}' of the kind {}, whose updates have no mean "
      "of its form",
      file,
      printable(kind));
  for (const auto& [name, value] : json.items())
    require(!is_foreign(name, value),
            "[merge] needs plain LoRA, W + s B A, received '{}' with {} = {}",
            file,
            printable(name),
            printable(value.dump()));
}

double number_at(const Settings& json, const char* name, const fs::path& file) {
  require_environment(json.contains(name) && json[name].is_number(),
                      "[merge] '{}' is damaged: {} is no number",
                      file,
                      name);
  const auto number = json[name].get<double>();
  require_environment(number > 0 && std::isfinite(number),
                      "[merge] '{}' needs {} > 0, received {}",
                      file,
                      name,
                      number_text(number));
  return number;
}

bool switch_at(const Settings& json, const char* name) {
  return json.contains(name) && json[name].is_boolean() && json[name].get<bool>();
}

ModulePatterns patterns_at(const Settings& json, const char* name, const fs::path& file) {
  ModulePatterns patterns;
  if (!json.contains(name) || is_unset(json[name])) return patterns;
  require_environment(
      json[name].is_object(), "[merge] '{}' is damaged: {} is no object", file, name);
  for (const auto& [key, value] : json[name].items())
    patterns.emplace_back(checkpoints::NamePattern("^(.*\\.)?(" + key + ")$",
                                                   formatted("[merge] '{}': {}", file, name)),
                          number_at(json[name], key.c_str(), file));
  return patterns;
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
          "[merge] '{}' gives \"{}\" the rank {}, its weights have {}",
          file,
          printable(module),
          number_text(r),
          rank_stored);
  return found_in(alphas, module, alpha) / (rank_stabilised ? std::sqrt(r) : r);
}

LoraConfig read_lora_config(const fs::path& folder) {
  LoraConfig config{.file = folder / adapter_config_name};
  config.json =
      parse_ordered_json(InputFile(config.file).text(JsonLimits{}.bytes), config.file.string());
  require_lora(config.json, config.file);
  config.rank = number_at(config.json, "r", config.file);
  config.alpha = number_at(config.json, "lora_alpha", config.file);
  config.ranks = patterns_at(config.json, "rank_pattern", config.file);
  config.alphas = patterns_at(config.json, "alpha_pattern", config.file);
  config.rank_stabilised = switch_at(config.json, "use_rslora");
  config.fan_in_fan_out = switch_at(config.json, "fan_in_fan_out");
  return config;
}

std::string name_in_base(std::string_view name) {
  return std::string(name.starts_with(wrapper) ? name.substr(wrapper.size()) : name);
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
      return LoraFactor{name_in_base(name.substr(0, name.size() - text.size())), side, embedding};
  return {};
}

Settings config_of_mean(const LoraConfig& like,
                        std::int64_t rank,
                        std::vector<std::pair<std::string, std::int64_t>> ranks) {
  auto json = like.json;
  json["r"] = rank;
  json["lora_alpha"] = rank;
  json["use_rslora"] = false;
  json["init_lora_weights"] = true;
  // PEFT takes the first whose end matches, so that longer names go first.
  std::ranges::stable_sort(
      ranks, std::ranges::greater(), [](const auto& entry) { return entry.first.size(); });
  auto by_module = Settings::object();
  for (const auto& [module, of_module] : ranks) append_value(by_module, module, of_module);
  json["rank_pattern"] = by_module;
  json["alpha_pattern"] = by_module;
  return json;
}

}  // namespace dimred::merge
