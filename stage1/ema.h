#pragma once

#include <memory>

#include "method/average.h"
#include "training/hooks.h"

namespace dimred::stage1 {

/// The exponential mean of the weights (Options::ema); null when its decay is 0.
std::unique_ptr<training::Hook> make_ema(const method::AverageOptions& options);

}  // namespace dimred::stage1
