#pragma once

#include <string_view>

#include "method/presets.h"

namespace dimred::method {

/// The condition under which an option of stage 2 has an effect, where a step of these options does
/// not meet it ("method = quasi-newton"); empty where it has one.
std::string_view needed_for_effect(std::string_view option,
                                   const MethodOptions& method,
                                   const PenaltyOptions& penalty,
                                   const AverageOptions& average);

}  // namespace dimred::method
