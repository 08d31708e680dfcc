#pragma once

#include <cstdint>
#include <vector>

#include "checkpoints/atomic_file.h"
#include "pca/device.h"
#include "pca/passes.h"

// The passes of passes.h by plan.device. Its tiles are whole digest blocks, each read, and written
// where there is something to write, by one of the plan's threads.
namespace dimred::pca {

/// Gives the plan that device, with as many tiles under way as its threads and tile_bytes of
/// page-locked memory allow, at least two; not where it has no columns. Throws as open_device().
void use_device(PassPlan& plan, const DeviceChoice& device, std::int64_t tile_bytes);

/// As gram_matrix().
std::vector<double> gram_on_device(const PassPlan& plan);

/// As write_components().
Components components_on_device(const PassPlan& plan,
                                const std::vector<double>& combinations,
                                std::int64_t header_bytes,
                                checkpoints::AtomicFile& file);

}  // namespace dimred::pca
