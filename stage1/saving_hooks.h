#pragma once

#include <memory>

#include "run/hooks.h"
#include "run/run_folder.h"
#include "stage1/saves.h"

namespace dimred::stage1 {

/// Snapshots for the PCA: number i of n of an epoch after its step ceil(i * steps / n).
std::unique_ptr<run::Hook> make_snapshots(const SaveOptions& options, const run::RunFolder& folder);

}  // namespace dimred::stage1
