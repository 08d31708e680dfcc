#pragma once

#include <cstdint>

// Options for the end of a run, for what is kept of it and for what it prints on the way.
namespace dimred::stage1 {

struct ControlOptions {
  std::int64_t stop_at_step = 0;  // >= 0; the run ends after this number of steps; 0: none
  std::int64_t log_loss_every_n_iters = 0;   // >= 0; steps between lines; 0: none
  std::int64_t early_stopping_patience = 0;  // >= 0; epochs without a better validation; 0: none
  double early_stopping_min_delta = 0.01;    // >= 0; of accuracy, that counts as better
  bool keep_best = false;                    // the best epoch's weights stay in best/
  bool print_model_statistics = false;       // the network's layers, before the first step
};

}  // namespace dimred::stage1
