#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/errors.h"
#include "support/fast_clones.h"

namespace dimred::data {
namespace {

constexpr int precision_bits = 22;  // 8 bits of pixel, 2 of overshoot, 32 in all
constexpr std::int32_t half = 1 << (precision_bits - 1);

/// Weights of outputs [begin, begin + count) of `out` over [low, low + length) of `in` pixels.
void set_weights(ResizeWeights& result,
                 std::int64_t in,
                 double low,
                 double length,
                 std::int64_t out,
                 std::int64_t begin,
                 std::int64_t count) {
  const double scale = length / out;
  const double support = std::max(scale, 1.0);
  const std::int64_t least = std::floor(low);
  const auto most = std::min(in, static_cast<std::int64_t>(std::ceil(low + length)));
  result.size = 2 * std::ceil(support) + 1;
  result.first.resize(count);
  result.count.resize(count);
  result.weights.assign(count * result.size, 0);
  std::vector<double> values(result.size);
  for (std::int64_t i = 0; i < count; ++i) {
    const double centre = low + (begin + i + 0.5) * scale;
    const auto first = std::max(least, static_cast<std::int64_t>(centre - support + 0.5));
    const auto last = std::min(most, static_cast<std::int64_t>(centre + support + 0.5));
    double sum = 0;
    for (auto x = first; x < last; ++x) {
      const double distance = std::abs((x - centre + 0.5) * (1.0 / support));
      values[x - first] = std::max(0.0, 1.0 - distance);
      sum += values[x - first];
    }
    result.first[i] = first;
    result.count[i] = last - first;
    for (std::int64_t k = 0; k < last - first; ++k) {
      const double weight = values[k] / sum;
      result.weights[i * result.size + k] =
          static_cast<std::int32_t>(0.5 + weight * (1 << precision_bits));
    }
  }
}

std::uint8_t to_byte(std::int32_t sum) { return std::clamp(sum >> precision_bits, 0, 255); }

using Quad = std::int32_t __attribute__((vector_size(16)));
using ByteQuad = std::uint8_t __attribute__((vector_size(4)));

/// One row of `channels` (1 or 3) interleaved; `line` has 4 bytes more than the row.
DIMRED_FAST_CLONES void resize_line(const std::uint8_t* line,
                                    std::int64_t channels,
                                    const ResizeWeights& columns,
                                    std::uint8_t* out) {
  const auto count = columns.first.size();
  const auto* weights = columns.weights.data();
  for (std::size_t i = 0; i < count; ++i, weights += columns.size) {
    const auto* from = line + columns.first[i] * channels;
    const auto taps = columns.count[i];
    if (channels == 1) {
      std::int32_t sum = half;
      for (std::int64_t k = 0; k < taps; ++k) sum += from[k] * weights[k];
      *out++ = to_byte(sum);
      continue;
    }
    // Four bytes are loaded a pixel; the fourth belongs to the next one and is dropped.
    Quad sums{half, half, half, half};
    for (std::int64_t k = 0; k < taps; ++k, from += 3) {
      ByteQuad bytes;
      std::memcpy(&bytes, from, sizeof bytes);
      sums += __builtin_convertvector(bytes, Quad) * weights[k];
    }
    for (int channel = 0; channel < 3; ++channel) *out++ = to_byte(sums[channel]);
  }
}

/// sums[x] += weight line[x].
DIMRED_FAST_CLONES void add_line(const std::uint8_t* line,
                                 std::int32_t weight,
                                 std::size_t size,
                                 std::int32_t* sums) {
  for (std::size_t x = 0; x < size; ++x) sums[x] += weight * line[x];
}

DIMRED_FAST_CLONES void round_to_bytes(const std::int32_t* sums,
                                       std::size_t size,
                                       std::uint8_t* out) {
  for (std::size_t x = 0; x < size; ++x) {
    const auto value = sums[x] >> precision_bits;
    out[x] = value < 0 ? 0 : value > 255 ? 255 : value;
  }
}

void require_inside(const Image& image, const Box& box, Size out, const Region& window) {
  constexpr double slack = 1e-6;
  require(image.channels == 1 || image.channels == 3,
          "[data] needs 1 or 3 channels, received {}",
          image.channels);
  require(box.height > 0 && box.width > 0 && box.top >= 0 && box.left >= 0 &&
              box.top + box.height <= image.height + slack &&
              box.left + box.width <= image.width + slack,
          "[data] needs a box within the image of {} x {}, received {} x {} at row {}, column {}",
          image.height,
          image.width,
          box.height,
          box.width,
          box.top,
          box.left);
  require(window.top >= 0 && window.left >= 0 && window.height >= 1 && window.width >= 1 &&
              window.top + window.height <= out.height && window.left + window.width <= out.width,
          "[data] needs a window within the image of {} x {}, received {} x {}",
          out.height,
          out.width,
          window.height,
          window.width);
}

}  // namespace

void resize(const Image& image,
            const Box& box,
            Size out,
            const Region& window,
            ResizeScratch& scratch,
            std::uint8_t* result) {
  require_inside(image, box, out, window);
  auto& rows = scratch.rows;
  set_weights(rows, image.height, box.top, box.height, out.height, window.top, window.height);
  set_weights(
      scratch.columns, image.width, box.left, box.width, out.width, window.left, window.width);
  const auto first = rows.first.front();
  const auto last = rows.first.back() + rows.count.back();
  const std::size_t line_size = image.width * image.channels;
  const std::size_t row_size = window.width * image.channels;
  scratch.line.resize(line_size + 4);
  scratch.between.resize((last - first) * row_size);
  for (auto y = first; y < last; ++y) {
    std::memcpy(scratch.line.data(), image.pixels.data() + y * line_size, line_size);
    resize_line(scratch.line.data(),
                image.channels,
                scratch.columns,
                scratch.between.data() + (y - first) * row_size);
  }
  scratch.sums.resize(row_size);
  for (std::size_t y = 0; y < rows.first.size(); ++y, result += row_size) {
    std::ranges::fill(scratch.sums, half);
    for (std::int64_t k = 0; k < rows.count[y]; ++k) {
      add_line(scratch.between.data() + (rows.first[y] + k - first) * row_size,
               rows.weights[y * rows.size + k],
               row_size,
               scratch.sums.data());
    }
    round_to_bytes(scratch.sums.data(), row_size, result);
  }
}

std::vector<std::uint8_t> resized(const Image& image, Size out) {
  std::vector<std::uint8_t> result(out.height * out.width * image.channels);
  ResizeScratch scratch;
  resize(image,
         {0, 0, static_cast<double>(image.height), static_cast<double>(image.width)},
         out,
         {0, 0, out.height, out.width},
         scratch,
         result.data());
  return result;
}

}  // namespace dimred::data
