#pragma once

#include <memory>

#include "run/hooks.h"
#include "run/run_folder.h"
#include "stage1/control.h"

namespace dimred::stage1 {

/// Keeps the best epoch's weights in best/ and ends a run that gets no better; null when neither is
/// wanted. Needs a validation set.
std::unique_ptr<run::Hook> make_early_stopping(const ControlOptions& options,
                                               const run::RunFolder& folder);

}  // namespace dimred::stage1
