#pragma once

#include "checkpoints/state.h"
#include "method/method.h"
#include "stage2/average.h"
#include "stage2/tensor_space.h"
#include "training/epoch.h"
#include "training/setup.h"

namespace dimred::stage2 {

/// Everything that stage 2 carries from step to step besides the network's own vectors and what the
/// method keeps.
struct TrainState {
  training::Position position;
  Average average;
  training::FilePrefix curve, steps;  // what of curve.csv and steps.csv belongs to this state
  int not_finite = 0;                 // steps in a row up to now
};

/// The descent that a state is of: it goes on only in the same one.
struct Descent {
  method::Method& method;
  TensorSpace& space;
  double length = 0;        // budget or epochs
  bool has_length = false;  // the steps depend on it
};

/// Vectors of own columns go to the file gathered over ranks and in file order, so the state is
/// independent of their number. Cost: one read of P, for P w, by which a resume knows it.
checkpoints::State to_checkpoint(const training::Setup& setup,
                                 const TrainState& state,
                                 const Descent& descent);

/// Each rank keeps its own columns, whatever the number of ranks that saved. Throws
/// std::invalid_argument when it is another stage's, another model's, of another method or k, or
/// was made with another basis or schedule.
void from_checkpoint(const checkpoints::State& saved,
                     training::Setup& setup,
                     TrainState& state,
                     const Descent& descent);

}  // namespace dimred::stage2
