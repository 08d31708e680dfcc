#pragma once

#include "method/average.h"
#include "method/options.h"
#include "method/presets.h"
#include "options/options.h"

namespace dimred::method {

/// Adds the rows of a step's constants, each with the methods that it has an effect with.
void add_options(OptionTable& table, MethodOptions& method, PenaltyOptions& penalty);

/// Adds the rows of the mean of the iterates.
void add_options(OptionTable& table, AverageOptions& average);

}  // namespace dimred::method
