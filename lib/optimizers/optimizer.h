#pragma once

#include <torch/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "optimizers/segments.h"
#include "options/options.h"

namespace dimred::optimizers {

/// The numbers that change from step to step, on the weights' device: a CUDA graph reads it where
/// `set` wrote it.
class StepControl {
 public:
  explicit StepControl(const torch::Device& device);

  /// `step` counts from 1.
  void set(double learning_rate, std::int64_t step);

  const torch::Tensor& learning_rate() const { return rate_; }  // [], float64 (CUDA: float32)
  const torch::Tensor& step() const { return step_; }           // [], the same
  double host_learning_rate() const { return host_rate_; }
  /// step() reads the tensors alone, at every step, so that a recorded one has the same bits. True
  /// for CUDA.
  bool on_device = false;

 private:
  torch::Tensor rate_, step_;
  double host_rate_ = 0;
};

/// An update of weights from gradients: what the optimisers have in common, on any columns.
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  /// True when a step with these numbers would change nothing, its state neither.
  virtual bool is_idle(const StepControl& /*control*/) const { return false; }

  /// One step in place on `weights` [columns]; `gradient` [columns] is left as it is. Waits for
  /// nothing.
  virtual void step(torch::Tensor& weights,
                    const torch::Tensor& gradient,
                    const StepControl& control) = 0;

  /// The state that it carries from step to step, [columns] each, by name: the tensors themselves,
  /// to be read or overwritten.
  virtual std::map<std::string, torch::Tensor> vectors() = 0;
};

enum class OptimizerKind {
  momentum,
  sgd,
  nesterov,
  adam,
  adamweightdecay,
  adagrad,
  adadelta,
  rmsprop,
  ftrl,
  lars
};
const std::vector<std::pair<std::string, OptimizerKind>>& optimizer_kinds();
std::string name_of(OptimizerKind kind);
/// PyTorch's; nullopt where it has none of use (SGD, LARS, FTRL).
std::optional<double> usual_learning_rate(OptimizerKind kind);

/// Whether the usual rate goes down with the batch: SGD's step is the mean gradient times the rate,
/// so that its noise grows as rate / batch (Goyal et al. 2017, section 2.1). The others divide by
/// the gradient's size, which holds that noise.
bool rate_goes_with_batch(OptimizerKind kind);

/// g <- gradient + weight_decay * w (where decay applies);  m <- momentum m + g;
/// w <- w - lr * m, or with nesterov w - lr * (g + momentum m). The first step sets m = g.
/// Source: Sutskever et al. 2013; torch.optim.SGD with dampening 0.
struct SgdOptions {
  double momentum = 0.9;       // [0, 1)
  double weight_decay = 1e-4;  // >= 0; not applied to biases and BatchNorm
  bool nesterov = false;       // needs momentum > 0
};

struct AdamOptions {
  double beta1 = 0.9;    // [0, 1)
  double beta2 = 0.999;  // [0, 1)
};
struct AccumulatorOptions {
  double adagrad_initial = 0;  // >= 0
  double adadelta_rho = 0.9;   // [0, 1)
};
struct RmspropOptions {
  double momentum = 0;  // [0, 1)
  double decay = 0.99;  // [0, 1)
};
struct FtrlOptions {
  double learning_rate_power = -0.5;  // <= 0
  double initial_accumulator = 0.1;   // > 0
  double l1 = 0;                      // >= 0
  double l2 = 0;                      // >= 0
};
struct LarsOptions {
  double coefficient = 0.001;  // > 0
  double epsilon = 1e-5;       // >= 0
};

/// Changes of a gradient before the step (clip.h).
struct GradientOptions {
  std::optional<double> max_gradient_norm;  // > 0; of all ranks' columns together
  bool centralize = false;
};

/// Names are FastNN's (images/flags.py), whose optimisers are TensorFlow 1's; defaults are
/// PyTorch's, as FastNN's epsilon of 1 makes Adam a slow SGD (a first run reached 11 %).
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::momentum;
  SgdOptions sgd;  // of sgd (its weight decay), momentum, nesterov, lars; weight decay of all
  double epsilon = 1e-8;  // opt_epsilon of adam, adamweightdecay, adadelta, rmsprop; > 0
  AdamOptions adam;
  AccumulatorOptions accumulator;
  RmspropOptions rmsprop;
  FtrlOptions ftrl;
  LarsOptions lars;
  GradientOptions gradient;
};

/// Throws std::invalid_argument("[optimizers] rule, received ...").
void validate(OptimizerOptions options);

/// The optimiser, its state fresh, for vectors like `like` [columns] whose parameters are
/// `segments`; `sum_over_ranks` where some of them are sharded. Throws as validate() does.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<Segment> segments,
                                          const torch::Tensor& like,
                                          SumOverRanks sum_over_ranks = nullptr);

/// The rows of the group "Optimizer".
void add_options(OptionTable& table, OptimizerOptions& options);

}  // namespace dimred::optimizers
