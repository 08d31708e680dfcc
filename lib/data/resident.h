#pragma once

#include <cstdint>

#include "data/dataset.h"

namespace dimred::data {

/// The data set decoded once and kept in memory as planes, if its images have one size and fit into
/// `memory` bytes, with no side above `longest_side` (0: any); else (and when it needs no decoding)
/// `whole` itself. The size is that of the first sample (that can be read), its channels 1 if that
/// one is grey, else 3, unless `channels` says so. All samples are read and decoded before this
/// returns, `threads` at a time; as soon as one differs in size the rest is left. Samples that
/// cannot be decoded throw std::runtime_error naming their origin (of several, the one of lowest
/// index); with `skip_bad` reading such a sample throws it instead, as from files, unless none is
/// good. Sample::damage tells of partly decoded samples that were used. Cost: the decoding, and
/// size x channels x height x width bytes.
SharedDataset resident(SharedDataset whole,
                       std::int64_t memory,
                       std::int64_t threads,
                       int channels = 0,
                       bool skip_bad = false,
                       std::int64_t longest_side = 0);

}  // namespace dimred::data
