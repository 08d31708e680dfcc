#pragma once

#include "scaling/head.h"
#include "scaling/model.h"
#include "support/options.h"

namespace dimred::commands {

/// The subject of --scale: a network (M), a last layer over many classes (C), or both.
struct ScaleOptions {
  double parameters = 0, classes = 0;  // 25.6e6 is how people write it; 0: not asked
  scaling::Problem problem;
  scaling::Machine machine;
  scaling::Head head;
  std::int64_t batch_size = 128;  // of a rank, for the head
};

/// One row a key.
OptionTable scale_table(ScaleOptions& options);

/// Throws std::invalid_argument as OptionTable::read_words, and without M and C.
ScaleOptions parse_scale(const std::string& words);

}  // namespace dimred::commands
