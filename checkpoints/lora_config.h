#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoints/name_pattern.h"

// What PEFT's adapter_config.json says of a LoRA adapter (peft/tuners/lora/config.py).
namespace dimred::checkpoints {

constexpr auto adapter_config_name = "adapter_config.json";

/// Values of modules whose names end in a match, as PEFT's rank_pattern and alpha_pattern; the
/// first that matches wins.
using ModulePatterns = std::vector<std::pair<NamePattern, double>>;

struct LoraConfig {
  std::string scope;  // of messages: "convert", "merge"
  std::filesystem::path file;
  nlohmann::ordered_json json;
  double rank = 0;
  double alpha = 0;
  ModulePatterns ranks;
  ModulePatterns alphas;
  bool rank_stabilised = false;            // s = alpha / sqrt(r)
  std::vector<std::string> trained_whole;  // modules_to_save: ends of modules' names
  bool fan_in_fan_out = false;  // of the last layer that PEFT wrapped: its weight is [in, out]

  /// Returns the factor of a module's update s B A. Throws std::invalid_argument where the file
  /// gives it another rank than the factors have.
  double scale_of(const std::string& module, std::int64_t rank_stored) const;
  double scale_of(const std::string& module) const;

  /// Whether PEFT trained a copy of the tensor's module.
  bool trains_copy(std::string_view tensor) const;
};

/// Reads the file of a folder. Throws std::invalid_argument, naming what it says, for a file of
/// another program, for adapters of other kinds (DoRA, LoHa, IA3, ...) and for what changes more
/// than W + s B A or another W; std::runtime_error for entries of a damaged one.
LoraConfig read_lora_config(const std::filesystem::path& folder, std::string_view scope);

/// A factor of LoRA, as PEFT names it.
struct LoraFactor {
  enum class Side { a, b, bias };
  std::string module;  // without base_model.model.
  Side side = Side::a;
  bool embedding = false;
};

/// nullopt: the tensor is no factor.
std::optional<LoraFactor> lora_factor(std::string_view name);

/// The name of the base's tensor that an adapter's one changes: a module's weight or bias for the
/// parts of its update; of other tensors the name without base_model.model, base_layer and
/// modules_to_save, which PEFT adds.
std::string name_in_base(std::string_view name);

}  // namespace dimred::checkpoints
