#pragma once

#include <filesystem>

#include "engine/data_sets.h"

namespace dimred::run {

/// The data sets of a run as its manifest.json in `folder` describes them, where the data are gone:
/// classes and normalisation, no samples. Throws std::invalid_argument where the manifest does not
/// know enough.
engine::DataSets described_data(const std::filesystem::path& folder,
                                const engine::DataOptions& options,
                                const engine::BatchOptions& batches);

}  // namespace dimred::run
