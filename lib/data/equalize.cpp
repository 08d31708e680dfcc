#include <array>
#include <numeric>

#include "data/presets.h"

namespace dimred::data {
namespace {

/// Spreads each channel's values so that equal parts of the range hold about equally many pixels.
/// Source: Pillow, ImageOps.equalize, to the same bits.
void equalize_pixels(std::vector<std::uint8_t>& pixels, std::int64_t channels) {
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    std::array<std::int64_t, 256> counts{};
    for (std::size_t i = channel; i < pixels.size(); i += channels) ++counts[pixels[i]];
    auto last = counts.size() - 1;
    while (last > 0 && counts[last] == 0) last -= 1;
    const auto below_last = std::accumulate(counts.begin(), counts.begin() + last, std::int64_t{0});
    const auto step = below_last / 255;
    if (step == 0) continue;  // too few pixels, or all alike
    std::array<std::uint8_t, 256> spread{};
    for (std::int64_t value = 0, sum = step / 2; value < 256; sum += counts[value++])
      spread[value] = std::min<std::int64_t>(sum / step, 255);
    for (std::size_t i = channel; i < pixels.size(); i += channels) pixels[i] = spread[pixels[i]];
  }
}

}  // namespace

namespace preprocessings {
/// Like the preprocessing `none`, and each channel's histogram is equalised.
Preprocessing equalize(std::int64_t image_size) {
  return {.crop = whole_image(image_size), .change = equalize_pixels};
}
}  // namespace preprocessings

}  // namespace dimred::data
