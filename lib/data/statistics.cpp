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

Sums sums_of(Bytes pixels) {
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

/// Calls use(index, sample) for `count` samples at even distances, and returns how many could be
/// read and used: whoever trains on the others says so.
template <class Use>
std::int64_t for_good_samples(const Dataset& dataset, std::int64_t count, const Use& use) {
  std::vector<std::uint8_t> scratch;
  std::int64_t good = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto index = i * dataset.size() / count;
    try {
      use(index, dataset.read(index, scratch));
      ++good;
    } catch (const std::runtime_error&) {
      continue;
    }
  }
  return good;
}

void require_good(std::int64_t good, std::int64_t count, const Dataset& whole) {
  require_environment(
      good > 0, "[data] none of the {} samples of {} can be read", count, whole.title());
}

}  // namespace

ChannelStatistics channel_statistics(const Dataset& dataset) {
  require(dataset.size() >= 1, "[data] needs at least one sample, received none");
  require(dataset.shape().has_value(),
          "[data] needs images of one size, received images of different sizes in {}",
          dataset.title());
  const auto shape = *dataset.shape();
  const std::size_t plane = shape.height * shape.width;
  std::vector<Sums> sums(shape.channels);
  const std::uint64_t good =
      for_good_samples(dataset, dataset.size(), [&](std::int64_t, const Sample& sample) {
        for (std::size_t channel = 0; channel < sums.size(); ++channel) {
          const auto part = sums_of(sample.bytes.subspan(channel * plane, plane));
          sums[channel].values += part.values;
          sums[channel].squares += part.squares;
        }
      });
  require_good(good, dataset.size(), dataset);
  using Wide = unsigned __int128;
  const auto count = good * plane;
  const auto scale = 255.0 * count;
  ChannelStatistics result;
  for (const auto& [values, squares] : sums) {
    const Wide spread = Wide{count} * squares - Wide{values} * values;
    result.mean.push_back(values / scale);
    result.deviation.push_back(std::sqrt(static_cast<double>(spread)) / scale);
  }
  return result;
}

ChannelStatistics prepared_statistics(const Dataset& dataset,
                                      const Preprocessing& preprocessing,
                                      std::int64_t channels) {
  constexpr std::int64_t most = 2000;
  require(dataset.size() >= 1, "[data] needs at least one sample, received none");
  const std::size_t count = channels;
  auto plain = without_augmentation(preprocessing);
  plain.mean.assign(count, 0);
  plain.deviation.assign(count, 1);
  plain.standardise = false;
  const auto shape = prepared_shape(plain, dataset);
  const Preparer preparer(plain, shape);
  const auto taken = std::min(most, dataset.size());
  std::vector<double> sums(count, 0), squares(count, 0);
  std::vector<float> values(shape.size());
  PrepareScratch scratch;
  const auto good = for_good_samples(dataset, taken, [&](std::int64_t index, const Sample& sample) {
    preparer.prepare(sample, /*epoch=*/0, index, scratch, values);
    for (std::size_t at = 0; at < values.size(); ++at) {
      const double value = values[at];
      sums[at * count / values.size()] += value;
      squares[at * count / values.size()] += value * value;
    }
  });
  require_good(good, taken, dataset);
  const double pixels = good * shape.height * shape.width;
  ChannelStatistics result;
  for (std::size_t channel = 0; channel < count; ++channel) {
    const double mean = sums[channel] / pixels;
    result.mean.push_back(mean);
    result.deviation.push_back(std::sqrt(std::max(0.0, squares[channel] / pixels - mean * mean)));
  }
  return result;
}

std::vector<ImageShape> some_shapes(const Dataset& dataset, std::int64_t looks) {
  std::vector<ImageShape> shapes;
  for_good_samples(
      dataset, std::min(looks, dataset.size()), [&](std::int64_t, const Sample& sample) {
        shapes.push_back(encoded_shape(sample));
      });
  return shapes;
}

std::int64_t channels_of(const Dataset& dataset) {
  if (const auto shape = dataset.shape()) return shape->channels;
  const auto is_grey = [](const ImageShape& shape) { return shape.channels == 1; };
  return std::ranges::all_of(some_shapes(dataset, 16), is_grey) ? 1 : 3;
}

}  // namespace dimred::data
