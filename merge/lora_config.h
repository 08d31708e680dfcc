#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoints/name_pattern.h"

// What PEFT's adapter_config.json says of a LoRA adapter (peft/tuners/lora/config.py).
namespace dimred::merge {

constexpr auto adapter_config_name = "adapter_config.json";

/// Values of modules whose names end in a match, as PEFT's rank_pattern and alpha_pattern; the
/// first that matches wins.
using ModulePatterns = std::vector<std::pair<checkpoints::NamePattern, double>>;

struct LoraConfig {
  std::filesystem::path file;
  nlohmann::ordered_json json;
  double rank = 0;
  double alpha = 0;
  ModulePatterns ranks;
  ModulePatterns alphas;
  bool rank_stabilised = false;  // s = alpha / sqrt(r)
  bool fan_in_fan_out = false;   // weights of the base are [in, out]

  /// The factor of a module's update s B A. Throws std::invalid_argument where the file gives it
  /// another rank.
  double scale_of(const std::string& module, std::int64_t rank_stored) const;
};

/// Reads the file of a folder. Throws std::invalid_argument, naming what it says, for adapters of
/// other kinds (DoRA, LoHa, IA3, ...) and for what changes more than W + s B A or another W.
LoraConfig read_lora_config(const std::filesystem::path& folder);

/// A factor of LoRA, as PEFT names it.
struct LoraFactor {
  enum class Side { a, b, bias };
  std::string module;  // without base_model.model.
  Side side = Side::a;
  bool embedding = false;
};

/// nullopt: the tensor is no factor.
std::optional<LoraFactor> lora_factor(std::string_view name);

/// The name without base_model.model.
std::string name_in_base(std::string_view name);

/// The file of the mean: of this rank, with the scale 1. `ranks`: of each module where they
/// differ, else empty.
nlohmann::ordered_json config_of_mean(const LoraConfig& like,
                                      std::int64_t rank,
                                      std::vector<std::pair<std::string, std::int64_t>> ranks);

}  // namespace dimred::merge
