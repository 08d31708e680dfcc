#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

// Options for the end of a run, for what is kept of it and for what it prints on the way.
namespace dimred::stage1 {

struct ControlOptions {
  std::int64_t stop_at_step = 0;             // >= 0; the run ends after so many steps; 0: none
  std::int64_t log_loss_every_n_iters = 0;   // >= 0; steps between lines; 0: none
  std::int64_t early_stopping_patience = 0;  // >= 0; epochs without a better validation; 0: none
  double early_stopping_min_delta = 0.01;    // >= 0; of accuracy, that counts as better
  bool keep_best = false;                    // the best epoch's weights stay in best/
  bool print_model_statistics = false;       // the network's layers, before the first step
};

/// Throws std::invalid_argument for a value out of range.
void validate(const ControlOptions& options);

/// The best validation accuracy so far, and what follows from it. Source: MoXing's
/// EarlyStoppingHook (min_delta 0.01, patience 3).
class BestSoFar {
 public:
  /// After each epoch. True when it is the best of all, by any amount.
  bool add(double accuracy, double min_delta);
  /// Epochs since accuracy last rose by min_delta above the best that had.
  std::int64_t epochs_without() const { return without_; }
  double accuracy() const { return best_; }

  nlohmann::json to_json() const;
  void restore(const nlohmann::json& json);

 private:
  double best_ = -1;       // the greatest
  double reference_ = -1;  // the last that was better by min_delta
  std::int64_t without_ = 0;
};

}  // namespace dimred::stage1
