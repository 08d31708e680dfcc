#include "data/jitter.h"

#include <algorithm>
#include <array>

namespace dimred::data {
namespace {

using Table = std::array<std::uint8_t, 256>;

std::uint8_t clipped(float value) {
  return static_cast<std::uint8_t>(value <= 0 ? 0.0F : value >= 255 ? 255.0F : value);
}

std::uint8_t blend(std::uint8_t from, std::uint8_t to, float factor) {
  return clipped(from + factor * (to - from));
}

/// Blend of every value with one.
void blend_with(std::uint8_t from, float factor, std::span<std::uint8_t> pixels) {
  Table table;
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = blend(from, i, factor);
  for (auto& pixel : pixels) pixel = table[pixel];
}

float drawn_factor(double strength, RandomStream& stream) {
  const double low = std::max(0.0, 1 - strength);
  return low + (1 + strength - low) * stream.uniform();
}

std::uint8_t mean_grey(Bytes pixels, std::int64_t channels) {
  std::uint64_t sum = 0;
  const std::size_t step = channels;
  for (std::size_t i = 0; i + step <= pixels.size(); i += step)
    sum += channels == 1 ? pixels[i] : grey_of(pixels[i], pixels[i + 1], pixels[i + 2]);
  const auto count = pixels.size() / step;
  return 1.0 * sum / count + 0.5;
}

}  // namespace

void brighten(float factor, std::span<std::uint8_t> pixels) { blend_with(0, factor, pixels); }

void contrast(float factor, std::span<std::uint8_t> pixels, std::int64_t channels) {
  blend_with(mean_grey(pixels, channels), factor, pixels);
}

void saturate(float factor, std::span<std::uint8_t> pixels, std::int64_t channels) {
  if (channels != 3) return;
  for (std::size_t i = 0; i + 3 <= pixels.size(); i += 3) {
    const auto grey = grey_of(pixels[i], pixels[i + 1], pixels[i + 2]);
    for (std::size_t channel = 0; channel < 3; ++channel)
      pixels[i + channel] = blend(grey, pixels[i + channel], factor);
  }
}

void jitter(const JitterOptions& options,
            std::span<std::uint8_t> pixels,
            std::int64_t channels,
            RandomStream& stream) {
  if (options.shift > 0) {
    const float amount = options.shift * (2 * stream.uniform() - 1);
    for (auto& pixel : pixels) pixel = clipped(pixel + amount + 0.5F);
  }
  if (options.brightness > 0) brighten(drawn_factor(options.brightness, stream), pixels);
  if (options.contrast > 0) contrast(drawn_factor(options.contrast, stream), pixels, channels);
  if (options.saturation > 0) saturate(drawn_factor(options.saturation, stream), pixels, channels);
}

}  // namespace dimred::data
