#pragma once

#include <string>

#include "run/epoch.h"

namespace dimred::run {

/// Trains until the stage is done or a hook wants the end: resumes from the folder's newest valid
/// state, else from that of resume_from, else starts fresh. At each epoch's end a row of the
/// present weights and those of the hooks, every checkpoint_every epochs and at the end a state.
/// Bit-identical to a run that was never interrupted. Returns stopped when a signal ended it, with
/// a state of the last step saved, and before the first step without one.
EpochEnd train(Run& run, Stage& stage);

/// Evaluates the present weights as `weights` and adds the row to the curve.
void add_row(Run& run, Stage& stage, const std::string& weights);

}  // namespace dimred::run
