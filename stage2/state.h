#pragma once

#include "checkpoints/state.h"
#include "stage2/step.h"
#include "training/epoch.h"
#include "training/setup.h"

namespace dimred::stage2 {

/// Everything that stage 2 carries from step to step besides the network's own vectors.
struct TrainState {
  training::Position position;
  StepState step;
  training::FilePrefix curve, steps;  // what of curve.csv and steps.csv belongs to this state
};

/// m goes to the file gathered over ranks and in file order, so the state is independent of their
/// number. Cost: one read of `basis` [k x own columns], for P w, by which a resume knows it.
checkpoints::State to_checkpoint(const training::Setup& setup,
                                 const TrainState& state,
                                 const torch::Tensor& basis);

/// Each rank keeps its own columns of m, whatever the number of ranks that saved it. Throws
/// std::invalid_argument when it is another stage's, another model's, of another k, or was made
/// with another basis.
void from_checkpoint(const checkpoints::State& saved,
                     training::Setup& setup,
                     const torch::Tensor& basis,
                     TrainState& state);

}  // namespace dimred::stage2
