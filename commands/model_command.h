#pragma once

#include <string>
#include <vector>

#include "models/summary.h"

namespace dimred::commands {

/// `dimred inspect --model NAME`: layers, shapes, parameters and compute of a network.
int model_command(const std::vector<std::string>& arguments);

/// A line for each layer: its kind, shapes, parameters and multiply-adds.
std::string model_table(const models::NetworkSummary& summary);

}  // namespace dimred::commands
