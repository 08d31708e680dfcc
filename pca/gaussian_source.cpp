#include "pca/gaussian_source.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "support/random.h"

namespace dimred::pca {
namespace {

std::array<std::uint32_t, 2> key_of(std::uint64_t seed) {
  RandomStream stream(seed, RandomPurpose::basis);
  const std::uint32_t first = stream.next();
  return {first, stream.next()};
}

float on_grid(double value) { return (std::floor(value * 1024) + 0.5) / 1024; }

/// In (0, 1).
double uniform(std::uint32_t word) { return (word + 0.5) * 0x1p-32; }

}  // namespace

GaussianSource::GaussianSource(std::int64_t rows, std::int64_t columns, std::uint64_t seed)
    : SnapshotSource({.rows = rows, .columns = columns}), key_(key_of(seed)) {}

std::array<float, 4> GaussianSource::values(std::int64_t column, std::int64_t group) const {
  const auto words = philox({static_cast<std::uint32_t>(column),
                             static_cast<std::uint32_t>(column >> 32),
                             static_cast<std::uint32_t>(group),
                             0},
                            key_);
  std::array<float, 4> values{};
  for (std::size_t i = 0; i < 4; i += 2) {
    const double radius = std::sqrt(-2 * std::log(uniform(words[i])));
    const double angle = 2 * std::numbers::pi * uniform(words[i + 1]);
    values[i] = on_grid(radius * std::cos(angle));
    values[i + 1] = on_grid(radius * std::sin(angle));
  }
  return values;
}

void GaussianSource::read(std::int64_t row, std::int64_t begin, std::span<float> out) const {
  for (float& value : out) value = values(begin++, row / 4)[row % 4];
}

void GaussianSource::read_tile(std::int64_t begin,
                               std::int64_t width,
                               float* out,
                               std::int64_t stride) const {
  for (std::int64_t row = 0; row < rows(); row += 4) {
    const auto count = std::min<std::int64_t>(4, rows() - row);
    for (std::int64_t c = 0; c < width; ++c) {
      const std::array<float, 4> column = values(begin + c, row / 4);
      for (std::int64_t i = 0; i < count; ++i) {
        out[(row + i) * stride + c] = column[i];
      }
    }
  }
}

}  // namespace dimred::pca
