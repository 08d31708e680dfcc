#include "pca/selected_source.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "support/errors.h"

namespace dimred::pca {
namespace {

/// What a range counts in: the rows' epochs, or their places counted from 1.
struct Places {
  std::vector<std::int64_t> values;  // [rows]
  bool epochs = false;
};

Places places_of(const SnapshotSource& source) {
  Places places{source.epochs(), true};
  if (std::ssize(places.values) == source.rows()) return places;
  places.values.resize(static_cast<std::size_t>(source.rows()));
  std::iota(places.values.begin(), places.values.end(), 1);
  places.epochs = false;
  return places;
}

}  // namespace

std::vector<std::int64_t> rows_in(const SnapshotSource& source, const SnapshotRange& range) {
  require(range.from >= 0 && range.to >= 0 && range.skip >= 0 &&
              (range.to == 0 || range.from <= range.to),
          "pca::fit",
          "needs 0 <= from <= to (or to = 0) and skip >= 0, received from = ",
          range.from,
          ", to = ",
          range.to,
          ", skip = ",
          range.skip);
  const Places places = places_of(source);
  std::vector<std::int64_t> rows;
  std::int64_t left_out = range.skip;  // since the last one taken
  for (std::int64_t i = 0; i < source.rows(); ++i) {
    const std::int64_t place = places.values[static_cast<std::size_t>(i)];
    if (place < range.from || (range.to > 0 && place > range.to)) continue;
    if (left_out++ < range.skip) continue;
    rows.push_back(i);
    left_out = 0;
  }
  const auto [first, last] = std::ranges::minmax(places.values);
  require(!rows.empty(),
          "pca::fit",
          "needs snapshots in the range given, received from = ",
          range.from,
          ", to = ",
          range.to,
          " of ",
          places.epochs ? "epochs " : "snapshots ",
          first,
          " to ",
          last);
  return rows;
}

SelectedSource::SelectedSource(const SnapshotSource& source, std::vector<std::int64_t> rows)
    : source_(source), rows_(std::move(rows)) {}

void SelectedSource::read(std::int64_t row, std::int64_t begin, std::span<float> out) const {
  source_.read(rows_[static_cast<std::size_t>(row)], begin, out);
}

std::vector<std::string> SelectedSource::names() const {
  const std::vector<std::string> all = source_.names();
  std::vector<std::string> names;
  for (const std::int64_t row : rows_) names.push_back(all[static_cast<std::size_t>(row)]);
  return names;
}

std::vector<std::int64_t> SelectedSource::epochs() const {
  const std::vector<std::int64_t> all = source_.epochs();
  std::vector<std::int64_t> epochs;
  for (const std::int64_t row : all.empty() ? std::vector<std::int64_t>{} : rows_) {
    epochs.push_back(all[static_cast<std::size_t>(row)]);
  }
  return epochs;
}

}  // namespace dimred::pca
