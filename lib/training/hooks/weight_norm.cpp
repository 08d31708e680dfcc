#include "support/errors.h"
#include "training/hooks.h"

namespace dimred::training::hooks {
namespace {

/// After each epoch: how long the weights are, and how far from those of the start of this process.
class WeightNorm final : public Hook {
 public:
  void begin(const RunView& run) override {
    start_ = run.setup.model.flat.weights.detach().clone();
  }

  void after_epoch(const RunView& run, const CurveRow& row) override {
    const auto weights = run.setup.model.flat.weights.detach();
    run.console.line(formatted("weights at step {}: norm {}, distance from the start {}",
                               row.step,
                               weights.norm().item<double>(),
                               (weights - start_).norm().item<double>()));
  }

 private:
  torch::Tensor start_;
};

}  // namespace

std::unique_ptr<Hook> make_weight_norm() { return std::make_unique<WeightNorm>(); }

}  // namespace dimred::training::hooks
