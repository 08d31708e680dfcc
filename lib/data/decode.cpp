#include "data/decode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "data/codecs.h"
#include "support/bytes.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

EncodedHeader header_of(const Sample& sample) {
  switch (sample.encoding) {
    case Encoding::jpeg:
      return jpeg_header(sample.bytes);
    case Encoding::png:
      return png_header(sample.bytes);
    case Encoding::planes:
      break;
  }
  return {.stored = sample.shape};
}

// Orientations 5 to 8 exchange rows and columns.
bool is_transposed(int orientation) { return orientation >= 5; }

ImageShape seen(const EncodedHeader& header) {
  auto shape = header.stored;
  if (is_transposed(header.orientation)) std::swap(shape.height, shape.width);
  return shape;
}

/// Returns the stored place of pixel (y, x) as seen; `stored` is the size there.
std::pair<std::int64_t, std::int64_t> stored_place(int orientation,
                                                   const ImageShape& stored,
                                                   std::int64_t y,
                                                   std::int64_t x) {
  if (is_transposed(orientation)) std::swap(y, x);
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  return {from_bottom ? stored.height - 1 - y : y, from_right ? stored.width - 1 - x : x};
}

void copy_planes(const Sample& sample, const Region& region, int channels, Image& image) {
  const auto [planes, height, width] = sample.shape;
  require(planes == channels || planes == 1,
          "[data] needs an image with {} channels or 1 channel, received {}",
          channels,
          planes);
  const auto plane_size = height * width;
  image.set_region(region, channels);
  auto* to = image.pixels.data();
  for (std::int64_t y = region.top; y < region.top + region.height; ++y) {
    for (std::int64_t x = region.left; x < region.left + region.width; ++x) {
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        const auto plane = planes == 1 ? 0 : channel;
        *to++ = sample.bytes[plane * plane_size + y * width + x];
      }
    }
  }
}

std::int64_t largest_reduction(const Region& region, Size at_least) {
  std::int64_t reduction = 8;
  while (reduction > 1 && (region.height < reduction * at_least.height ||
                           region.width < reduction * at_least.width)) {
    reduction /= 2;
  }
  return reduction;
}

void decode_stored(const Sample& sample,
                   const Region& region,
                   std::int64_t reduction,
                   int channels,
                   Image& image) {
  if (sample.encoding == Encoding::jpeg) {
    decode_jpeg(sample.bytes, region, reduction, channels, image);
  } else {
    decode_png(sample.bytes, region, channels, image);
  }
}

/// A turned image is rare: decoded at reduction 1, then its pixels are put in place one by one.
void decode_turned(const Sample& sample,
                   const EncodedHeader& header,
                   const Region& region,
                   int channels,
                   Image& image) {
  const auto first = stored_place(header.orientation, header.stored, region.top, region.left);
  const auto last = stored_place(header.orientation,
                                 header.stored,
                                 region.top + region.height - 1,
                                 region.left + region.width - 1);
  const Region stored{.top = std::min(first.first, last.first),
                      .left = std::min(first.second, last.second),
                      .height = std::abs(first.first - last.first) + 1,
                      .width = std::abs(first.second - last.second) + 1};
  Image turned;
  decode_stored(sample, stored, 1, channels, turned);
  image.set_region(region, channels);
  image.damage = std::move(turned.damage);
  auto* to = image.pixels.data();
  for (std::int64_t y = 0; y < region.height; ++y) {
    for (std::int64_t x = 0; x < region.width; ++x, to += channels) {
      const auto [row, column] =
          stored_place(header.orientation, header.stored, region.top + y, region.left + x);
      const auto at = ((row - turned.covers.top) * turned.width + column - turned.covers.left);
      std::memcpy(to, turned.pixels.data() + at * channels, channels);
    }
  }
}

}  // namespace

void Image::set_region(const Region& region, std::int64_t channels_wanted) {
  reduction = 1;
  covers = region;
  channels = channels_wanted;
  height = region.height;
  width = region.width;
  pixels.resize(channels * height * width);
}

std::optional<Encoding> sniff(Bytes bytes) {
  const auto text = text_of(bytes);
  if (text.starts_with("\xFF\xD8\xFF")) return Encoding::jpeg;
  if (text.starts_with("\x89PNG\r\n\x1A\n")) return Encoding::png;
  return std::nullopt;
}

void require_plausible(const char* format,
                       const ImageShape& shape,
                       std::size_t bytes,
                       std::int64_t pixels_a_byte,
                       std::int64_t copies) {
  require_environment(shape.height >= 1 && shape.width >= 1,
                      "[{}] needs at least one pixel, received {} x {} pixels",
                      format,
                      shape.height,
                      shape.width);
  // Both are at most 2^31, so the product fits.
  require_environment(shape.height * shape.width <= largest_image,
                      "[{}] needs at most {} megapixels, received {} x {} pixels",
                      format,
                      largest_image / 1'000'000,
                      shape.height,
                      shape.width);
  require_environment(shape.height <= largest_side && shape.width <= largest_side,
                      "[{}] needs at most {} pixels on each side, received {} x {}",
                      format,
                      largest_side,
                      shape.height,
                      shape.width);
  const std::int64_t holds = bytes * pixels_a_byte + 65536;
  const auto may_ask = decode_memory(bytes) / (3 * copies);
  require_environment(
      shape.height * shape.width <= std::min(holds, may_ask),
      "[{}] the image has only {} bytes, too few for the {} x {} pixels of its header",
      format,
      bytes,
      shape.height,
      shape.width);
}

ImageShape encoded_shape(const Sample& sample) { return seen(header_of(sample)); }

void decode(const Sample& sample, const Region& region, Size at_least, int channels, Image& image) {
  check(channels == 1 || channels == 3 || sample.encoding == Encoding::planes,
        "decode: 1 or 3 channels");
  const auto header = header_of(sample);
  const auto shape = seen(header);
  require(
      region.top >= 0 && region.left >= 0 && region.height >= 1 && region.width >= 1 &&
          region.height <= shape.height - region.top && region.width <= shape.width - region.left,
      "[data] needs a region within the image of {} x {}, received {} x {} at row {}, column {}",
      shape.height,
      shape.width,
      region.height,
      region.width,
      region.top,
      region.left);
  image.damage.clear();
  if (sample.encoding == Encoding::planes) return copy_planes(sample, region, channels, image);
  if (header.orientation != 1) return decode_turned(sample, header, region, channels, image);
  decode_stored(sample, region, largest_reduction(region, at_least), channels, image);
}

Image decoded(const Sample& sample, int channels) {
  const auto shape = encoded_shape(sample);
  Image image;
  decode(sample, {0, 0, shape.height, shape.width}, {shape.height, shape.width}, channels, image);
  return image;
}

}  // namespace dimred::data
