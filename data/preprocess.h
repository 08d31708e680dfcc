#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace dimred::data {

/// x = (pixel / 255 - mean) / deviation per channel, after an optional zero-padded random crop (of
/// the original height x width; padding is pixel 0, before normalisation, as torchvision's
/// RandomCrop does) and a random horizontal flip, both keyed by (seed, epoch, sample).
struct Preprocessing {
  std::vector<double> mean;       // [channels], of pixel / 255
  std::vector<double> deviation;  // [channels], > 0
  std::int64_t pad = 0;           // pixels on each side, < height and < width; 0: no crop
  bool flip = false;              // with probability 1/2
  std::uint64_t seed = 0;
};

/// Throws std::invalid_argument("[data::Preprocessing] rule, received ...").
void validate(const Preprocessing& preprocessing, const ImageShape& shape);

/// The same normalisation with neither crop nor flip, for evaluation.
Preprocessing without_augmentation(Preprocessing preprocessing);

/// [channels]: the value that each of the 256 pixels becomes, float32((p / 255 - mean) / deviation)
/// computed in float64. The preprocessing is a valid one.
using PixelTable = std::vector<std::array<float, 256>>;
PixelTable pixel_table(const Preprocessing& preprocessing);

/// Writes one sample as the network wants it: crop, flip, normalise. `out` has sample.shape.size()
/// values, channels x height x width; `table` is pixel_table(preprocessing). `index` keys the
/// random choices together with epoch and preprocessing.seed. With the stream of (seed,
/// augmentation, epoch, index): row offset = below(2 pad + 1), column offset likewise, flip =
/// below(2) == 1.
void preprocess(const Sample& sample,
                const Preprocessing& preprocessing,
                const PixelTable& table,
                std::int64_t epoch,
                std::int64_t index,
                std::span<float> out);

}  // namespace dimred::data
