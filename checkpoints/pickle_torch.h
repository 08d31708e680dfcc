#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "checkpoints/pickle.h"

// The few of Python's names that a state dict needs, and what stands for calls of them. Of
// checkpoints/pickle.cpp. Sources: torch/serialization.py, torch/_utils.py.
namespace dimred::checkpoints {

/// "module.name" of a storage class, OrderedDict, or what rebuilds tensors and parameters.
bool is_known_global(std::string_view global);

/// What the persistent id ('storage', class, key, location, elements) names; nullopt for another.
std::optional<PickleValue> storage_from(const std::vector<const PickleValue*>& items);

/// The value of a known global called with these arguments; nullopt when they do not fit.
std::optional<PickleValue> called(std::string_view global,
                                  const std::vector<const PickleValue*>& arguments);

}  // namespace dimred::checkpoints
