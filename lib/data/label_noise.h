#pragma once

#include <cstdint>
#include <memory>

#include "data/dataset.h"

namespace dimred::data {

/// Returns the samples with round(fraction * size) labels drawn uniformly from the *other* classes,
/// so that the fraction is exactly the share of wrong labels. (Drawing from all classes, as some
/// papers do, leaves 1/classes of the replaced labels right: their rate r is our r (1 -
/// 1/classes).) Which samples and which classes is a pure function of (seed, index, size, classes),
/// the same for any ranks, threads or restarts; a sample that is replaced at one fraction is
/// replaced by the same class at every larger one. With fraction 0 it is `whole` itself. Throws
/// std::invalid_argument unless fraction is in [0, 1], classes >= 2, and at least one label is
/// replaced. Cost: about 10 Philox a read, no memory.
SharedDataset with_label_noise(SharedDataset whole, double fraction, std::uint64_t seed);

}  // namespace dimred::data
