#include "data/preprocess.h"

#include <algorithm>
#include <cmath>

#include "support/errors.h"
#include "support/random.h"
#include "support/stopwatch.h"

namespace dimred::data {
namespace {

bool shifts_or_flips(const Preprocessing& preprocessing) {
  return preprocessing.pad > 0 || preprocessing.flip;
}

Augmentation draw(const Preprocessing& preprocessing, RandomStream& stream) {
  if (!shifts_or_flips(preprocessing)) return {};
  const std::uint32_t offsets = 2 * preprocessing.pad + 1;
  Augmentation drawn;
  drawn.row_shift = stream.below(offsets) - preprocessing.pad;
  drawn.column_shift = stream.below(offsets) - preprocessing.pad;
  drawn.flip = stream.below(2) == 1 && preprocessing.flip;
  return drawn;
}

RandomStream stream_of(const Preprocessing& preprocessing, std::int64_t epoch, std::int64_t index) {
  return RandomStream(preprocessing.seed, RandomPurpose::augmentation, epoch, index);
}

/// Bytes of an image, whose value (channel, y, x) is at channel * of_channel + y * of_row + x *
/// of_column; so it can be read as planes or interleaved.
struct Strides {
  std::int64_t of_channel, of_row, of_column;
};

Strides strides_of(const ImageShape& shape, PixelOrder order) {
  if (order == PixelOrder::planes) return {shape.height * shape.width, shape.width, 1};
  return {1, shape.width * shape.channels, shape.channels};
}

/// `width` values a `step` apart, from `from` on, into `out`.
void copy_row(const std::uint8_t* from,
              std::int64_t step,
              std::int64_t width,
              const std::array<float, 256>& values,
              float* out,
              std::int64_t out_step) {
  if (step == 1 && out_step == 1) {
    for (std::int64_t x = 0; x < width; ++x) out[x] = values[from[x]];
    return;
  }
  for (std::int64_t x = 0; x < width; ++x) out[x * out_step] = values[from[x * step]];
}

/// One row, shifted, padded and flipped.
void write_row(const std::uint8_t* row,
               std::int64_t step,
               std::int64_t width,
               const Augmentation& drawn,
               const std::array<float, 256>& values,
               float* out,
               std::int64_t out_step) {
  const auto shift = drawn.column_shift;
  const auto first = std::max<std::int64_t>(0, -shift);
  const auto last = std::min(width, width - shift);
  if (drawn.flip) {  // written from the right
    out += (width - 1) * out_step;
    out_step = -out_step;
  }
  for (std::int64_t x = 0; x < first; ++x) out[x * out_step] = values[0];
  copy_row(
      row + (first + shift) * step, step, last - first, values, out + first * out_step, out_step);
  for (auto x = last; x < width; ++x) out[x * out_step] = values[0];
}

/// Normalises bytes lying as `in` into values lying as `out`.
void write_values(const std::uint8_t* bytes,
                  const Strides& in,
                  const ImageShape& shape,
                  const Augmentation& drawn,
                  const PixelTable& table,
                  const Strides& out,
                  float* values) {
  for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
    const auto& lookup = table[channel];
    const auto* plane = bytes + channel * in.of_channel;
    float* to = values + channel * out.of_channel;
    if (drawn.is_none() && in.of_column == 1 && out.of_column == 1) {
      copy_row(plane, 1, shape.height * shape.width, lookup, to, 1);
      continue;
    }
    for (std::int64_t y = 0; y < shape.height; ++y, to += out.of_row) {
      const auto row = y + drawn.row_shift;
      if (row < 0 || row >= shape.height) {
        for (std::int64_t x = 0; x < shape.width; ++x) to[x * out.of_column] = lookup[0];
      } else {
        write_row(
            plane + row * in.of_row, in.of_column, shape.width, drawn, lookup, to, out.of_column);
      }
    }
  }
}

/// The image, interleaved, at the size of `shape`, in scratch.pixels.
void decode_and_crop(const Sample& sample,
                     const ImageShape& shape,
                     const CropOptions& crop,
                     RandomStream& stream,
                     PrepareScratch& scratch) {
  const Stopwatch clock;
  const auto stored = encoded_shape(sample);
  const Size size{stored.height, stored.width};
  const auto cutting = cut(crop, size, stream);
  if (crop.cut == CropMode::none) {
    require_environment(size == Size{shape.height, shape.width},
                        "[data] needs an image of {} x {}, received {} x {}",
                        shape.height,
                        shape.width,
                        size.height,
                        size.width);
  }
  auto& image = scratch.image;
  decode(sample, cutting.region, cutting.resized, shape.channels, image);
  if (sample.encoding != Encoding::planes) scratch.decode_seconds = clock.seconds();
  scratch.damage = image.damage;
  // A decoder may have read more than the region.
  const bool fits = image.covers == cutting.region &&
                    Size{image.height, image.width} == cutting.resized &&
                    Size{shape.height, shape.width} == cutting.resized;
  if (fits) {  // nothing to resize or to cut off
    std::swap(scratch.pixels, image.pixels);
    return;
  }
  scratch.pixels.resize(shape.size());
  const auto scale = 1.0 / image.reduction;
  const Box box{(cutting.region.top - image.covers.top) * scale,
                (cutting.region.left - image.covers.left) * scale,
                cutting.region.height * scale,
                cutting.region.width * scale};
  resize(image, box, cutting.resized, cutting.window, scratch.resize, scratch.pixels.data());
}

void standardise(std::span<float> values) {
  double sum = 0, squares = 0;
  for (const auto value : values) {
    sum += value;
    squares += double{value} * value;
  }
  const double count = values.size();
  const double mean = sum / count;
  const double deviation = std::sqrt(std::max(0.0, squares / count - mean * mean));
  const double scale = 1 / std::max(deviation, 1 / std::sqrt(count));
  for (auto& value : values) value = (value - mean) * scale;
}

}  // namespace

void validate(const Preprocessing& preprocessing, const ImageShape& shape) {
  const std::size_t channels = shape.channels;
  require(preprocessing.mean.size() == channels && preprocessing.deviation.size() == channels,
          "[preprocessing_name] needs one mean and one standard deviation per channel, received {} "
          "means and {} deviations for {} channels",
          preprocessing.mean.size(),
          preprocessing.deviation.size(),
          channels);
  for (const auto mean : preprocessing.mean) {
    require(std::isfinite(mean), "[preprocessing_name] needs finite means, received {}", mean);
  }
  for (const auto deviation : preprocessing.deviation) {
    require(deviation != 0,
            "[preprocessing_name] a channel has one constant value in all training images; choose "
            "a preprocessing with fixed statistics, such as --preprocessing_name imagenet");
    require(std::isfinite(deviation) && deviation > 0,
            "[preprocessing_name] needs standard deviations > 0, received {}",
            deviation);
  }
  require(preprocessing.pad >= 0 && preprocessing.pad < std::min(shape.height, shape.width),
          "[preprocessing_name] needs pad >= 0, below the height and below the width, received pad "
          "= {} for images of {} x {}",
          preprocessing.pad,
          shape.height,
          shape.width);
  validate(preprocessing.crop);
}

Preprocessing without_augmentation(Preprocessing preprocessing) {
  preprocessing.pad = 0;
  preprocessing.flip = false;
  preprocessing.jitter = {};
  if (preprocessing.crop.cut != CropMode::none) preprocessing.crop.cut = CropMode::centre;
  return preprocessing;
}

ImageShape prepared_shape(const Preprocessing& preprocessing, const Dataset& dataset) {
  const auto& crop = preprocessing.crop;
  if (crop.cut != CropMode::none) {
    return {std::ssize(preprocessing.mean), crop.size, crop.size};
  }
  const auto shape = dataset.shape();
  require(shape.has_value(),
          "[preprocessing_name] images of different or unknown sizes need a crop, such as "
          "--preprocessing_name imagenet --image_size 224; received {}",
          dataset.title());
  return *shape;
}

PixelTable pixel_table(const Preprocessing& preprocessing) {
  PixelTable table(preprocessing.mean.size());
  for (std::size_t channel = 0; channel < table.size(); ++channel) {
    for (int pixel = 0; pixel < 256; ++pixel) {
      table[channel][pixel] =
          (pixel / 255.0 - preprocessing.mean[channel]) / preprocessing.deviation[channel];
    }
  }
  return table;
}

Augmentation augmentation_of(const Preprocessing& preprocessing,
                             std::int64_t epoch,
                             std::int64_t index) {
  if (!shifts_or_flips(preprocessing)) return {};
  auto stream = stream_of(preprocessing, epoch, index);
  return draw(preprocessing, stream);
}

Preparer::Preparer(const Preprocessing& preprocessing, const ImageShape& shape, PixelOrder order)
    : preprocessing_(preprocessing), shape_(shape), order_(order) {
  validate(preprocessing, shape);
  table_ = pixel_table(preprocessing);
}

void Preparer::prepare(const Sample& sample,
                       std::int64_t epoch,
                       std::int64_t index,
                       PrepareScratch& scratch,
                       std::span<float> out) const {
  check(std::ssize(out) == shape_.size(), "prepare: size of the output");
  scratch.decode_seconds = 0;
  const bool plain = sample.encoding == Encoding::planes && preprocessing_.keeps_pixels();
  Augmentation drawn;
  if (plain) {
    check(sample.shape == shape_ && sample.bytes.size() == out.size(),
          "prepare: size of the sample");
    drawn = augmentation_of(preprocessing_, epoch, index);
  } else {
    auto stream = stream_of(preprocessing_, epoch, index);
    decode_and_crop(sample, shape_, preprocessing_.crop, stream, scratch);
    if (preprocessing_.change) preprocessing_.change(scratch.pixels, shape_.channels);
    drawn = draw(preprocessing_, stream);
    jitter(preprocessing_.jitter, scratch.pixels, shape_.channels, stream);
  }
  write_values(plain ? sample.bytes.data() : scratch.pixels.data(),
               strides_of(shape_, plain ? PixelOrder::planes : PixelOrder::interleaved),
               shape_,
               drawn,
               table_,
               strides_of(shape_, order_),
               out.data());
  if (preprocessing_.standardise) standardise(out);
}

}  // namespace dimred::data
