#pragma once

#include <memory>

#include "stage1/saves.h"
#include "training/hooks.h"
#include "training/run_folder.h"

namespace dimred::stage1 {

/// Snapshots for the PCA: number i of n of an epoch after its step ceil(i * steps / n).
std::unique_ptr<training::Hook> make_snapshots(const SaveOptions& options,
                                               const training::RunFolder& folder);

}  // namespace dimred::stage1
