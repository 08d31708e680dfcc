#include "data/preprocess.h"

#include <algorithm>
#include <cmath>

#include "support/errors.h"
#include "support/random.h"

namespace dimred::data {
namespace {

constexpr auto place = "data::Preprocessing";

// Where an output image takes its pixels: input row = row + row_shift, outside is padding.
struct Augmentation {
  std::int64_t row_shift = 0, column_shift = 0;
  bool flip = false;
};

Augmentation draw(const Preprocessing& preprocessing, std::int64_t epoch, std::int64_t index) {
  if (preprocessing.pad == 0 && !preprocessing.flip) return {};
  RandomStream stream(preprocessing.seed,
                      RandomPurpose::augmentation,
                      static_cast<std::uint64_t>(epoch),
                      static_cast<std::uint64_t>(index));
  const auto offsets = static_cast<std::uint32_t>(2 * preprocessing.pad + 1);
  Augmentation drawn;
  drawn.row_shift = static_cast<std::int64_t>(stream.below(offsets)) - preprocessing.pad;
  drawn.column_shift = static_cast<std::int64_t>(stream.below(offsets)) - preprocessing.pad;
  drawn.flip = stream.below(2) == 1 && preprocessing.flip;
  return drawn;
}

void copy_row(const std::uint8_t* pixels,
              std::int64_t width,
              std::int64_t shift,
              bool flip,
              const std::array<float, 256>& values,
              float* out) {
  const std::int64_t first = std::max<std::int64_t>(0, -shift);
  const std::int64_t last = std::min(width, width - shift);
  std::fill(out, out + first, values[0]);
  for (std::int64_t x = first; x < last; ++x) out[x] = values[pixels[x + shift]];
  std::fill(out + last, out + width, values[0]);
  if (flip) std::reverse(out, out + width);
}

}  // namespace

void validate(const Preprocessing& preprocessing, const ImageShape& shape) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  require(preprocessing.mean.size() == channels && preprocessing.deviation.size() == channels,
          place,
          "needs one mean and one deviation per channel, received ",
          preprocessing.mean.size(),
          " and ",
          preprocessing.deviation.size(),
          " for ",
          channels,
          " channels");
  for (const auto mean : preprocessing.mean) {
    require(std::isfinite(mean), place, "needs finite means, received ", mean);
  }
  for (const auto deviation : preprocessing.deviation) {
    require(std::isfinite(deviation) && deviation > 0,
            place,
            "needs deviations > 0, received ",
            deviation);
  }
  require(preprocessing.pad >= 0 && preprocessing.pad < std::min(shape.height, shape.width),
          place,
          "needs 0 <= pad < height and width, received pad = ",
          preprocessing.pad,
          " for images of ",
          shape.height,
          " x ",
          shape.width);
}

Preprocessing without_augmentation(Preprocessing preprocessing) {
  preprocessing.pad = 0;
  preprocessing.flip = false;
  return preprocessing;
}

PixelTable pixel_table(const Preprocessing& preprocessing) {
  PixelTable table(preprocessing.mean.size());
  for (std::size_t channel = 0; channel < table.size(); ++channel) {
    for (int pixel = 0; pixel < 256; ++pixel) {
      table[channel][static_cast<std::size_t>(pixel)] = static_cast<float>(
          (pixel / 255.0 - preprocessing.mean[channel]) / preprocessing.deviation[channel]);
    }
  }
  return table;
}

void preprocess(const Sample& sample,
                const Preprocessing& preprocessing,
                const PixelTable& table,
                std::int64_t epoch,
                std::int64_t index,
                std::span<float> out) {
  const auto [channels, height, width] = sample.shape;
  check(static_cast<std::int64_t>(out.size()) == sample.shape.size() &&
            sample.bytes.size() == out.size() &&
            static_cast<std::int64_t>(table.size()) == channels,
        "preprocess: sizes of sample, table and output");
  const auto drawn = draw(preprocessing, epoch, index);
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const auto& values = table[static_cast<std::size_t>(channel)];
    const auto* plane = sample.bytes.data() + channel * height * width;
    float* to = out.data() + channel * height * width;
    if (drawn.row_shift == 0 && drawn.column_shift == 0 && !drawn.flip) {
      for (std::int64_t i = 0; i < height * width; ++i) to[i] = values[plane[i]];
      continue;
    }
    for (std::int64_t y = 0; y < height; ++y, to += width) {
      const std::int64_t row = y + drawn.row_shift;
      if (row < 0 || row >= height) {
        std::fill(to, to + width, values[0]);
      } else {
        copy_row(plane + row * width, width, drawn.column_shift, drawn.flip, values, to);
      }
    }
  }
}

}  // namespace dimred::data
