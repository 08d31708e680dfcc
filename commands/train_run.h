#pragma once

#include <functional>

#include "support/console.h"
#include "training/epoch.h"
#include "training/run_folder.h"

namespace dimred::commands {

/// Trains inside a run folder: catches stop signals, writes manifest.json as running and then as
/// finished, interrupted or failed. Returns the exit code.
int train_run(const training::Setup& setup,
              const training::RunFolder& folder,
              const std::string& command,
              const std::function<training::EpochEnd()>& train);

}  // namespace dimred::commands
