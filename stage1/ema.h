#pragma once

#include <memory>

#include "method/average.h"
#include "run/hooks.h"

namespace dimred::stage1 {

/// The exponential mean of the weights (Options::ema); null when its decay is 0.
std::unique_ptr<run::Hook> make_ema(const method::AverageOptions& options);

}  // namespace dimred::stage1
