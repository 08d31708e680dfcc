#pragma once

#include "run/run.h"
#include "run/stage.h"

namespace dimred::run {

/// stopped: a signal, agreed over ranks when each has its batch or waits for it no longer, and
/// after the last step; enough: in the middle of the epoch a hook wanted the end.
enum class EpochEnd { finished, stopped, enough };

/// Runs the rest of epoch run.position.epoch: each step of the stage between the hooks' before_step
/// and after_step. Keeps the position, data waits and the progress line. Whether a loss that is not
/// finite ends the run, the stage's step decides.
EpochEnd run_epoch(Run& run, Stage& stage);

}  // namespace dimred::run
