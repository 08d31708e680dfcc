#include "data/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "data/decode.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

struct Sums {
  std::uint64_t values = 0, squares = 0;  // exact up to 2^64 / 255^2 = 2.8e14 pixels a channel
};

Sums sums_of(std::span<const std::uint8_t> pixels) {
  Sums sums;
  while (!pixels.empty()) {
    // 65536 * 255^2 < 2^32: narrow accumulators, which the compiler turns into vectors.
    const auto part = pixels.first(std::min<std::size_t>(pixels.size(), 65536));
    std::uint32_t values = 0, squares = 0;
    for (const std::uint32_t pixel : part) {
      values += pixel;
      squares += pixel * pixel;
    }
    sums.values += values;
    sums.squares += squares;
    pixels = pixels.subspan(part.size());
  }
  return sums;
}

}  // namespace

ChannelStatistics channel_statistics(const Dataset& dataset) {
  require(dataset.size() >= 1, "[data::channel_statistics] needs at least one sample");
  require(dataset.shape().has_value(),
          "[data::channel_statistics] needs images of one size, received those of {}",
          dataset.description());
  const auto shape = *dataset.shape();
  const auto plane = static_cast<std::size_t>(shape.height * shape.width);
  std::vector<Sums> sums(static_cast<std::size_t>(shape.channels));
  std::vector<std::uint8_t> scratch;
  std::uint64_t good = 0;
  for (std::int64_t index = 0; index < dataset.size(); ++index) {
    try {
      const auto pixels = dataset.read(index, scratch).bytes;
      for (std::size_t channel = 0; channel < sums.size(); ++channel) {
        const auto part = sums_of(pixels.subspan(channel * plane, plane));
        sums[channel].values += part.values;
        sums[channel].squares += part.squares;
      }
      ++good;
    } catch (const std::runtime_error&) {
      continue;  // whoever trains on it says so
    }
  }
  require_environment(good > 0,
                      "[data::channel_statistics] none of {} samples of {} can be read",
                      dataset.size(),
                      dataset.description());
  using Wide = unsigned __int128;
  const auto count = good * plane;
  const auto scale = 255.0 * static_cast<double>(count);
  ChannelStatistics result;
  for (const auto& [values, squares] : sums) {
    const Wide spread = Wide{count} * squares - Wide{values} * values;
    result.mean.push_back(static_cast<double>(values) / scale);
    result.deviation.push_back(std::sqrt(static_cast<double>(spread)) / scale);
  }
  return result;
}

ChannelStatistics prepared_statistics(const Dataset& dataset,
                                      const Preprocessing& preprocessing,
                                      std::int64_t channels,
                                      std::int64_t samples) {
  require(dataset.size() >= 1, "[data::prepared_statistics] needs at least one sample");
  const auto count = static_cast<std::size_t>(channels);
  auto plain = without_augmentation(preprocessing);
  plain.mean.assign(count, 0);
  plain.deviation.assign(count, 1);
  plain.standardise = false;
  const auto shape = prepared_shape(plain, dataset);
  const auto table = pixel_table(plain);
  const auto taken = std::min(samples, dataset.size());
  std::vector<double> sums(count, 0), squares(count, 0);
  std::vector<float> values(static_cast<std::size_t>(shape.size()));
  std::vector<std::uint8_t> encoded;
  PrepareScratch scratch;
  std::int64_t good = 0;
  for (std::int64_t i = 0; i < taken; ++i) {
    const auto index = i * dataset.size() / taken;
    try {
      const auto sample = dataset.read(index, encoded);
      prepare(sample, shape, plain, table, PixelOrder::planes, 0, index, scratch, values);
    } catch (const std::runtime_error&) {
      continue;  // whoever trains on it says so
    }
    ++good;
    for (std::size_t at = 0; at < values.size(); ++at) {
      const double value = values[at];
      sums[at * count / values.size()] += value;
      squares[at * count / values.size()] += value * value;
    }
  }
  require_environment(good > 0,
                      "[data::prepared_statistics] none of {} samples of {} can be read",
                      taken,
                      dataset.description());
  const auto pixels = static_cast<double>(good) * static_cast<double>(shape.height * shape.width);
  ChannelStatistics result;
  for (std::size_t channel = 0; channel < count; ++channel) {
    const double mean = sums[channel] / pixels;
    result.mean.push_back(mean);
    result.deviation.push_back(std::sqrt(std::max(0.0, squares[channel] / pixels - mean * mean)));
  }
  return result;
}

std::int64_t channels_of(const Dataset& dataset) {
  if (const auto shape = dataset.shape()) return shape->channels;
  constexpr std::int64_t samples = 16;
  std::vector<std::uint8_t> scratch;
  for (std::int64_t i = 0; i < std::min(samples, dataset.size()); ++i) {
    try {
      const auto sample = dataset.read(i * dataset.size() / samples % dataset.size(), scratch);
      if (encoded_shape(sample).channels != 1) return 3;
    } catch (const std::runtime_error&) {
      continue;
    }
  }
  return 1;
}

}  // namespace dimred::data
