#pragma once

#include <cstdint>

#include "pca/basis.h"
#include "support/communicator.h"

namespace dimred::pca {

struct Orthonormality {
  double error = 0;                  // max |P P' - I|, of all blocks
  std::int64_t apparent_blocks = 0;  // > 1: one block whose P P' is that of a block-diagonal basis
};

/// Over all ranks, in float64, of the values as they lie in memory; every thread takes whole panels
/// of columns. Several blocks are measured each by itself, where a row of zeros may stand for one
/// of norm 1. Cost: one read of P; memory: 8 B k^2 bytes.
Orthonormality measure_orthonormality(const Basis& basis,
                                      std::int64_t threads,
                                      Communicator& communicator);

}  // namespace dimred::pca
