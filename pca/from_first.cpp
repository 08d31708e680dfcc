#include "pca/from_first.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "support/errors.h"

namespace dimred::pca {
namespace {

SourceInfo info_of_differences(SourceInfo info) {
  require(info.rows >= 2,
          "[pca] needs 2 or more snapshots, because the first snapshot is the base; received {}",
          info.rows);
  const auto base = info.names.front();
  info.names.erase(info.names.begin());
  for (auto& name : info.names) name += " - " + base;
  if (!info.epochs.empty()) info.epochs.erase(info.epochs.begin());
  --info.rows;
  info.float64 = info.from_first = true;
  return info;
}

class FromFirst final : public SnapshotSource {
 public:
  explicit FromFirst(const SnapshotSource& source)
      : SnapshotSource(info_of_differences(source.info())), source_(source) {}

  void require_unchanged(std::int64_t row) const override {
    for (const auto of : {std::int64_t{0}, row + 1}) source_.require_unchanged(of);
  }
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    std::vector<double> values(out.size());
    read_float64(row, begin, values);
    std::ranges::copy(values, out.begin());
  }
  void read_float64(std::int64_t row, std::int64_t begin, std::span<double> out) const override {
    subtract_from(row, begin, stored(0, begin, out.size()), out);
  }
  void read_float64_tile(std::int64_t begin,
                         std::int64_t width,
                         double* out,
                         std::int64_t stride) const override {
    const auto size = static_cast<std::size_t>(width);
    const auto base = stored(0, begin, size);
    for (std::int64_t i = 0; i < rows(); ++i)
      subtract_from(i, begin, base, {out + i * stride, size});
  }

 private:
  void subtract_from(std::int64_t row,
                     std::int64_t begin,
                     const std::vector<double>& base,
                     std::span<double> out) const {
    std::ranges::transform(stored(row + 1, begin, out.size()), base, out.begin(), std::minus<>());
  }

  /// Values of the source as they are.
  std::vector<double> stored(std::int64_t row, std::int64_t begin, std::size_t size) const {
    std::vector<double> values(size);
    if (source_.info().float64) {
      source_.read_float64(row, begin, values);
      return values;
    }
    std::vector<float> floats(size);
    source_.read(row, begin, floats);
    std::ranges::copy(floats, values.begin());
    return values;
  }

  const SnapshotSource& source_;
};

}  // namespace

std::unique_ptr<SnapshotSource> from_first(const SnapshotSource& source) {
  return std::make_unique<FromFirst>(source);
}

std::vector<double> random_walk_from_first(std::int64_t steps, std::int64_t count) {
  require(count >= 1 && count <= steps,
          "[pca] needs 1 to {} components, because the random walk has {} steps, received {}",
          steps,
          steps,
          count);
  const auto n = static_cast<double>(steps);
  std::vector<double> shares;
  for (std::int64_t j = 1; j <= count; ++j) {
    const double sine = std::sin(std::numbers::pi * static_cast<double>(2 * j - 1) / (4 * n + 2));
    shares.push_back(1 / (4 * sine * sine) / (n * (n + 1) / 2));
  }
  return shares;
}

}  // namespace dimred::pca
