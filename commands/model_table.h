#pragma once

#include <string>

#include "models/summary.h"

namespace dimred::commands {

/// A line for each layer: its kind, shapes, parameters and multiply-adds.
std::string model_table(const models::NetworkSummary& summary);

}  // namespace dimred::commands
