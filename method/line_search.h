#pragma once

#include <cstdint>
#include <functional>

namespace dimred::method {

/// Backtracking: the first t of 1, rho, rho^2, ... (`trials` of them) with
///   loss(w + t u) <= loss(w) + sigma t slope            (strictly less with `strict`)
/// Source: Armijo 1966; Nocedal & Wright, Numerical Optimization, 2nd ed., algorithm 3.1.
struct ArmijoOptions {
  double contraction = 0.55;         // rho in (0, 1)
  double sufficient_decrease = 0.4;  // sigma in (0, 1)
  std::int64_t trials = 20;          // [1, 100]
  bool strict = false;
};

enum class SearchOutcome {
  accepted,
  no_decrease,       // all trials failed
  ascent_direction,  // slope >= 0 or not finite: nothing was tried
};
const char* name(SearchOutcome outcome);

struct SearchResult {
  double step_size = 0;  // t accepted; after no_decrease the last t tried
  double loss = 0;       // loss at that point; the start's when nothing was tried
  std::int64_t trials = 0;
  SearchOutcome outcome = SearchOutcome::no_decrease;
};

/// `loss_at(t)` moves the weights to w + t u and returns the loss there; a loss that is not finite
/// is a failed trial. Afterwards the weights are where the last call put them: at result.step_size,
/// and result.loss is the loss of exactly that point.
SearchResult armijo(const std::function<double(double)>& loss_at,
                    double start_loss,
                    double slope,
                    const ArmijoOptions& options);

}  // namespace dimred::method
