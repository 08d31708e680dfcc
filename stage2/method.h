#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "schedules/schedule.h"
#include "stage2/place.h"
#include "stage2/step.h"

namespace dimred::stage2 {

/// A way to spend a batch: what the methods of stage 2 have in common. The loop, the data order,
/// evaluation and cost accounting around it are the same for all.
class Method {
 public:
  Method() = default;
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;
  virtual ~Method() = default;

  /// One step in place on `weights` [memory_size]. `progress` in [0, 1] is the part of the budget
  /// that is spent, for what is scheduled.
  virtual StepReport step(const BatchLoss& batch, torch::Tensor& weights, double progress) = 0;

  /// What it carries from step to step: numbers, and vectors of own columns by name (the tensors
  /// themselves, to be read or overwritten).
  virtual nlohmann::json numbers() const = 0;
  virtual void restore_numbers(const nlohmann::json& numbers) = 0;
  virtual std::map<std::string, torch::Tensor> vectors() = 0;
};

/// How a rate falls as the budget is spent: constant; linear or cosine, to zero; step: a tenth at
/// half and again at three quarters.
using Decay = schedules::ScheduleKind;
/// The factor at `progress` in [0, 1].
double factor(Decay decay, double progress);

/// Line-searched quasi-Newton descent (step.h): P-BFGS and the presets. `alpha_decay` is of the
/// residual part's weight.
std::unique_ptr<Method> quasi_newton(Place place, const StepOptions& options, Decay alpha_decay);

/// SGD in the subspace, and beside it, with alpha > 0, the residual part:
///   v <- momentum v + P g,  m <- gamma m + (g - P'P g),  w <- w - learning_rate P'v - alpha m
/// P-SGD of DLDR is alpha = 0, TWA the same in the span of the snapshots. Cost: P is read twice.
std::unique_ptr<Method> projected_sgd(Place place,
                                      const RateOptions& rates,
                                      const ResidualOptions& residual,
                                      Decay rate_decay,
                                      Decay alpha_decay);

/// SGD in all weights, v <- momentum v + g, w <- w - learning_rate v: the baselines. No subspace.
std::unique_ptr<Method> sgd(Place place, const RateOptions& rates, Decay rate_decay);

/// Everything that settles which method runs.
struct MethodOptions {
  MethodKind kind = MethodKind::quasi_newton;
  StepOptions step;
  RateOptions rates;
  Decay schedule = Decay::constant;        // of the rate of psgd and sgd
  Decay alpha_schedule = Decay::constant;  // of the residual part's alpha
};

/// The method of that kind. Throws std::invalid_argument for a value out of range.
std::unique_ptr<Method> make_method(const MethodOptions& options, Place place);

/// True when what a step does depends on the length of the run.
bool has_length(const MethodOptions& options);

}  // namespace dimred::stage2
