#include "data/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

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
  require(dataset.size() >= 1, "data::channel_statistics", "needs at least one sample");
  require(dataset.shape().has_value(),
          "data::channel_statistics",
          "needs images of one size, received those of ",
          dataset.description());
  const auto shape = *dataset.shape();
  const auto plane = static_cast<std::size_t>(shape.height * shape.width);
  std::vector<Sums> sums(static_cast<std::size_t>(shape.channels));
  std::vector<std::uint8_t> scratch;
  for (std::int64_t index = 0; index < dataset.size(); ++index) {
    const auto pixels = dataset.read(index, scratch).bytes;
    for (std::size_t channel = 0; channel < sums.size(); ++channel) {
      const auto part = sums_of(pixels.subspan(channel * plane, plane));
      sums[channel].values += part.values;
      sums[channel].squares += part.squares;
    }
  }
  using Wide = unsigned __int128;
  const auto count = static_cast<std::uint64_t>(dataset.size()) * plane;
  const auto scale = 255.0 * static_cast<double>(count);
  ChannelStatistics result;
  for (const auto& [values, squares] : sums) {
    const Wide spread = Wide{count} * squares - Wide{values} * values;
    result.mean.push_back(static_cast<double>(values) / scale);
    result.deviation.push_back(std::sqrt(static_cast<double>(spread)) / scale);
  }
  return result;
}

}  // namespace dimred::data
