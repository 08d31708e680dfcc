#pragma once

#include <functional>

#include "optimizers/optimizer.h"

// The optimisers that treat every column alike: an update of some columns, and what it carries.
namespace dimred::optimizers {

/// Some columns; all [n], views. The gradient has the L2 term already.
struct ColumnViews {
  torch::Tensor weights;
  torch::Tensor gradient;
  std::vector<torch::Tensor> state;
  double decoupled_decay = 0;  // weight_decay where it applies and the rule decouples it
};

struct Rule {
  struct State {
    std::string name;
    double initial = 0;
  };
  std::vector<State> state;
  bool needs_rate = false;  // a step at rate 0 changes nothing, its state neither
  bool decoupled = false;   // weight decay is the rule's own, not L2 in the gradient
  /// Numbers [] that all columns of a step share, on the device; may be empty.
  std::function<torch::Tensor(const StepControl&)> prepare;
  /// In place on weights and state; the gradient may be overwritten. `shared` is what prepare gave,
  /// else the learning rate.
  std::function<void(ColumnViews& columns, const torch::Tensor& shared)> update;
};

// Formulas and sources stand in the files.
Rule adam(const AdamOptions& options, double epsilon);
Rule adamweightdecay(const AdamOptions& options, double epsilon);
Rule adagrad(double initial);
Rule adadelta(double rho, double epsilon);
Rule rmsprop(const RmspropOptions& options, double epsilon);
Rule ftrl(const FtrlOptions& options);

/// The optimiser of a rule. On the CPU it goes through the columns in pieces that stay in cache, so
/// that weights, gradient and state are read and written once; same bits for any threads.
std::unique_ptr<Optimizer> by_rule(Rule rule,
                                   double weight_decay,
                                   const std::vector<Segment>& segments,
                                   const torch::Tensor& like);

std::unique_ptr<Optimizer> sgd(const SgdOptions& options,
                               const std::vector<Segment>& segments,
                               const torch::Tensor& like);
std::unique_ptr<Optimizer> lars(const LarsOptions& options,
                                const SgdOptions& momentum,
                                std::vector<Segment> segments,
                                SumOverRanks sum_over_ranks,
                                const torch::Tensor& like);

}  // namespace dimred::optimizers
