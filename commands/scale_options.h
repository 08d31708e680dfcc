#pragma once

#include "scaling/model.h"
#include "support/options.h"

namespace dimred::commands {

/// What --scale asks for.
struct ScaleOptions {
  double parameters = 0;  // 25.6e6 is how people write it
  scaling::Problem problem;
  scaling::Machine machine;
};

/// One row a key.
OptionTable scale_table(ScaleOptions& options);

/// Throws std::invalid_argument as OptionTable::read_words, and without M.
ScaleOptions parse_scale(const std::string& words);

}  // namespace dimred::commands
