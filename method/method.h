#pragma once

#include <map>
#include <string>
#include <vector>

#include "method/inverse_hessian.h"
#include "method/line_search.h"
#include "method/options.h"
#include "method/subspace_space.h"

namespace dimred::method {

struct StepReport {
  double loss = 0;            // before the step
  double slope = 0;           // of the searched direction
  double curvature = 0;       // s'y of the pair offered to H
  double direction_norm = 0;  // |d|
  double residual_norm = 0;   // |g - P'g_k|
  SearchResult search;
  double step_size = 0;  // really taken: 0 after a failed search with no_step
  UpdateOutcome update = UpdateOutcome::none;
  bool reset = false;              // H was reset to I
  bool residual_left_out = false;  // the joint direction was no descent, the m part was dropped
  bool not_finite = false;         // loss or gradient not finite: nothing was changed
  int gradients = 0;               // computed beside the batch's own
  double alpha = 0;                // of the quasi-Newton methods; sgd, psgd: the learning rate
};

/// A way to spend a batch. The loop, the data order, evaluation and cost accounting around it are
/// the same for all; what a method carries from step to step is plain numbers.
class Method {
 public:
  Method() = default;
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;
  virtual ~Method() = default;

  /// One step on the space's batch. `progress` in [0, 1] is the part of the budget that is spent,
  /// for what is scheduled. If a call throws, the space is restored, the method is as before, and
  /// the exception goes on, also where the space cannot be restored.
  StepReport step(SubspaceSpace& space, double progress);

  /// The state that it carries, by name, and back; throws std::invalid_argument for other names or
  /// sizes.
  using StateDict = std::map<std::string, std::vector<double>>;
  virtual StateDict state_dict() const = 0;
  virtual void restore(const StateDict& dict) = 0;

 private:
  /// step() without the way back for the space. It works on a copy of the method's state, which
  /// takes the state's place once no call can throw any more.
  virtual StepReport descend(SubspaceSpace& space, double progress) = 0;
};

/// The factor of a rate during a run: constant; linear or cosine, to zero; step: a tenth at
/// `first_drop` and again at three quarters.
class DecayFactor {
 public:
  explicit DecayFactor(Decay decay, double first_drop = 0.5);

  /// Returns the factor when the part `progress` in [0, 1] of the budget is spent.
  double operator()(double progress) const;

 private:
  schedules::ScheduleOptions schedule_;
};

/// True when what a step does depends on the length of the run.
bool depends_on_length(const MethodOptions& options);

/// The numbers called `name` of a saved method; throws std::invalid_argument where there are none,
/// or another count.
std::span<const double> entry_of(const Method::StateDict& saved,
                                 const std::string& name,
                                 std::size_t count);

}  // namespace dimred::method
