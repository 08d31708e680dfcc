#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/crop.h"
#include "data/dataset.h"
#include "data/jitter.h"
#include "data/resize.h"

namespace dimred::data {

/// Changes the pixels of a cut image, interleaved, in place.
using PixelChange = void (*)(std::vector<std::uint8_t>& pixels, std::int64_t channels);

/// x = (pixel / 255 - mean) / deviation per channel, after, in this order: a crop to another size,
/// a change of its pixels, a change of colours, an optional zero-padded random crop (of the same
/// height x width; padding is pixel 0, before normalisation, as torchvision's RandomCrop does), a
/// random horizontal flip; all keyed by (seed, epoch, sample).
struct Preprocessing {
  std::vector<double> mean;       // [channels], of pixel / 255
  std::vector<double> deviation;  // [channels], > 0
  std::int64_t pad = 0;           // pixels on each side, < height and < width; 0: no crop
  bool flip = false;              // with probability 1/2
  std::uint64_t seed = 0;
  CropOptions crop;
  JitterOptions jitter;
  bool standardise =
      false;  // then (x - its mean) / max(its deviation, 1 / sqrt(values)), of an image
  PixelChange change = nullptr;  // also in evaluation
  std::string change_name;       // the preprocessing that has it

  /// Whether an image is another one in each epoch.
  bool augments() const {
    return crop.cut == CropMode::random_area || crop.cut == CropMode::random_side || pad > 0 ||
           flip || jitter.any();
  }
  /// Whether each value depends on one stored pixel alone.
  bool keeps_pixels() const {
    return crop.cut == CropMode::none && !jitter.any() && change == nullptr;
  }
};

/// Throws std::invalid_argument("[preprocessing_name] rule, received ..."). `shape` is of the
/// prepared images.
void validate(const Preprocessing& preprocessing, const ImageShape& shape);

/// The normalisation without random choices, for evaluation; a crop becomes the centre's.
Preprocessing without_augmentation(Preprocessing preprocessing);

/// The shape of the prepared images: that of the crop, or of the data set. Throws
/// std::invalid_argument when neither says it.
ImageShape prepared_shape(const Preprocessing& preprocessing, const Dataset& dataset);

/// [channels]: the value that each of the 256 pixels becomes, float32((p / 255 - mean) / deviation)
/// computed in float64. The preprocessing is a valid one.
using PixelTable = std::vector<std::array<float, 256>>;
PixelTable pixel_table(const Preprocessing& preprocessing);

/// How an image's values lie: channels x height x width, or height x width x channels.
enum class PixelOrder { planes, interleaved };

/// The origin of an output image's pixels: from row y + row_shift and column x + column_shift,
/// where x is counted from the right with `flip`; outside is padding.
struct Augmentation {
  std::int64_t row_shift = 0, column_shift = 0;
  bool flip = false;
  bool is_none() const { return row_shift == 0 && column_shift == 0 && !flip; }
};

/// The draws of prepare() for a sample where nothing is cut and no colour changes.
Augmentation augmentation_of(const Preprocessing& preprocessing,
                             std::int64_t epoch,
                             std::int64_t index);

/// Buffers that a thread reuses, and what the last image cost and showed.
struct PrepareScratch {
  Image image;
  ResizeScratch resize;
  std::vector<std::uint8_t> pixels;
  double decode_seconds = 0;  // of the last sample
  std::string damage;         // of the last sample, see Image
};

/// Writes samples as the network wants them; many threads may use one.
class Preparer {
 public:
  /// Throws as validate().
  Preparer(const Preprocessing& preprocessing,
           const ImageShape& shape,
           PixelOrder order = PixelOrder::planes);

  const Preprocessing& preprocessing() const { return preprocessing_; }
  const ImageShape& shape() const { return shape_; }

  /// `out` has shape.size() values in `order`. `index` keys the random choices together with epoch
  /// and preprocessing.seed. With the stream of (seed, augmentation, epoch, index): the crop's
  /// draws, then row offset = below(2 pad + 1), column offset = the same, flip = below(2) == 1,
  /// then the colours'. Throws std::runtime_error when the sample cannot be decoded or, without a
  /// crop, has another size than `shape`.
  void prepare(const Sample& sample,
               std::int64_t epoch,
               std::int64_t index,
               PrepareScratch& scratch,
               std::span<float> out) const;

 private:
  Preprocessing preprocessing_;
  ImageShape shape_;
  PixelOrder order_;
  PixelTable table_;
};

}  // namespace dimred::data
