#pragma once

#include <memory>

#include "run/hooks.h"

namespace dimred::stage1 {

/// Says once, after an epoch whose accuracy is what guessing reaches: with a test or validation
/// set of that, else of the epoch's own steps. `learning_rate` is the option's, which the remedy
/// names.
std::unique_ptr<run::Hook> make_chance_warning(double learning_rate);

}  // namespace dimred::stage1
