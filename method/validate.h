#pragma once

#include "method/options.h"
#include "method/presets.h"

// Numbers that no table has read, against the ranges of their rows (option_rows.h).
namespace dimred::method {

/// Throws std::invalid_argument("[method] rho needs in (0, 1), received 2") for the first number
/// out of range, or an unknown update rule.
void validate(MethodOptions options);

/// Throws std::invalid_argument for the first number out of range.
void validate(Preset preset);

}  // namespace dimred::method
