#pragma once

#include <cstdint>

#include "pca/basis.h"
#include "pca/ranks.h"

namespace dimred::pca {

/// max |P P' - I| over all ranks, in float64, of the values as they lie in memory; every thread
/// takes whole panels of columns. Cost: one read of P.
double measure_orthonormality(const Basis& basis, std::int64_t threads, const Ranks& ranks);

}  // namespace dimred::pca
