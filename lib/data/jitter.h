#pragma once

#include <cstdint>
#include <span>

#include "support/bytes.h"
#include "support/random.h"

namespace dimred::data {

/// Random changes of colour, each by a factor or amount drawn uniformly; 0: off.
struct JitterOptions {
  double shift = 0;       // adds U(-shift, shift) levels of 255 to all values
  double brightness = 0;  // factor U(max(0, 1 - b), 1 + b): blend with black
  double contrast = 0;    // as brightness: blend with the mean grey of the image
  double saturation = 0;  // as brightness: blend with each pixel's grey
  bool any() const { return shift > 0 || brightness > 0 || contrast > 0 || saturation > 0; }
};

/// Pillow's ImageEnhance.Brightness, Contrast and Color by a factor >= 0 (1: as it is), bit for
/// bit. Pixels interleaved, of 1 or 3 channels; saturation leaves grey ones alone.
void brighten(float factor, std::span<std::uint8_t> pixels);
void contrast(float factor, std::span<std::uint8_t> pixels, std::int64_t channels);
void saturate(float factor, std::span<std::uint8_t> pixels, std::int64_t channels);

/// Applies them in that order to interleaved pixels of 1 or 3 channels; each that is on draws one
/// number. A blend is Pillow's ImageEnhance (float32, towards zero, clipped), grey is its luma, so
/// that brightness, contrast and saturation equal torchvision's adjust_* of PIL images.
void jitter(const JitterOptions& options,
            std::span<std::uint8_t> pixels,
            std::int64_t channels,
            RandomStream& stream);

/// Pillow's grey of a colour: (19595 R + 38470 G + 7471 B + 2^15) / 2^16.
constexpr std::uint8_t grey_of(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16;
}

}  // namespace dimred::data
