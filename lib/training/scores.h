#pragma once

#include "support/console.h"
#include "training/curve.h"
#include "training/setup.h"

namespace dimred::training {

/// Scores of the present weights on the validation and the test set, where there are such.
/// Counts their bad samples in setup.data.report, and warns when there are others than at the last
/// time.
void add_scores(Setup& setup, CurveRow& row, Console& console);

}  // namespace dimred::training
