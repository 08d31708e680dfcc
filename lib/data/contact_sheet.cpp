#include "data/contact_sheet.h"

#include <algorithm>
#include <cmath>

#include "data/loader_report.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

constexpr std::int64_t gap = 4;  // pixels around each image

/// The inverse of the normalisation, rounded.
std::uint8_t to_pixel(float value, const Preprocessing& preprocessing, std::size_t channel) {
  const double level = preprocessing.standardise
                           ? (value + 2.0) / 4
                           : value * preprocessing.deviation[channel] + preprocessing.mean[channel];
  return static_cast<std::uint8_t>(std::clamp(std::lround(255 * level), 0L, 255L));
}

void paste(const std::vector<float>& image,
           const ImageShape& shape,
           const Preprocessing& preprocessing,
           std::int64_t top,
           std::int64_t left,
           ContactSheet& sheet) {
  const auto* from = image.data();
  for (std::int64_t y = 0; y < shape.height; ++y) {
    auto* to = sheet.pixels.data() + ((top + y) * sheet.shape.width + left) * shape.channels;
    for (std::int64_t x = 0; x < shape.width; ++x) {
      for (std::int64_t channel = 0; channel < shape.channels; ++channel)
        *to++ = to_pixel(*from++, preprocessing, channel);
    }
  }
}

}  // namespace

ContactSheet contact_sheet(const Dataset& dataset,
                           const Preprocessing& preprocessing,
                           const std::vector<std::int64_t>& indices,
                           std::int64_t columns) {
  require(columns >= 1, "[data] needs at least one column, received {}", columns);
  const auto shape = prepared_shape(preprocessing, dataset);
  const Preparer augmented(preprocessing, shape, PixelOrder::interleaved);
  const Preparer plain(without_augmentation(preprocessing), shape, PixelOrder::interleaved);
  const std::int64_t rows = indices.size();
  ContactSheet sheet;
  sheet.shape = {
      shape.channels, rows * (shape.height + gap) + gap, columns * (shape.width + gap) + gap};
  require(sheet.shape.height <= largest_image / sheet.shape.width,
          "[data] needs a picture of at most {} megapixels, received {} x {} pixels; choose fewer "
          "samples or columns",
          largest_image / 1'000'000,
          sheet.shape.height,
          sheet.shape.width);
  sheet.pixels.assign(sheet.shape.size(), 255);
  std::vector<float> image(shape.size());
  std::vector<std::uint8_t> encoded;
  PrepareScratch scratch;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto index = indices[row];
    for (std::int64_t column = 0; column < columns; ++column) {
      try {
        const auto& preparer = column == 0 ? plain : augmented;
        const auto epoch = std::max<std::int64_t>(0, column - 1);
        preparer.prepare(dataset.read(index, encoded), epoch, index, scratch, image);
      } catch (const std::runtime_error& error) {
        throw with_origin(error, dataset.origin(index));
      }
      paste(image,
            shape,
            preprocessing,
            gap + row * (shape.height + gap),
            gap + column * (shape.width + gap),
            sheet);
    }
  }
  return sheet;
}

}  // namespace dimred::data
