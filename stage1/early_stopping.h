#pragma once

#include <memory>

#include "stage1/control.h"
#include "training/hooks.h"
#include "training/run_folder.h"

namespace dimred::stage1 {

/// Keeps the best epoch's weights in best/ and ends a run that gets no better; null when neither is
/// wanted. Needs a validation set.
std::unique_ptr<training::Hook> make_early_stopping(const ControlOptions& options,
                                                    const training::RunFolder& folder);

}  // namespace dimred::stage1
