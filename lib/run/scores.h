#pragma once

#include "engine/setup.h"
#include "run/curve.h"
#include "support/console.h"

namespace dimred::run {

/// Scores of the present weights on the validation and the test set, where there are such.
/// Counts their bad samples in setup.data.report, and warns when there are others than at the last
/// time.
void add_scores(engine::Setup& setup, CurveRow& row, Console& console);

}  // namespace dimred::run
