#include "tests/pca/sources.h"

namespace dimred::pca::testing {

std::vector<float> all_of(const SnapshotSource& source) {
  const std::int64_t n = source.rows();
  const std::int64_t columns = source.columns();
  std::vector<float> tile(static_cast<std::size_t>(n * columns));
  source.read_tile(0, columns, tile.data(), columns);
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::int64_t begin = 0; begin < columns; ++begin) {
      std::vector<float> part(static_cast<std::size_t>(columns - begin));
      source.read(row, begin, part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), tile.begin() + row * columns + begin));
    }
  }
  return tile;
}

checkpoints::Snapshot snapshot_of(const layout::Layout& layout, const Eigen::RowVectorXd& row) {
  checkpoints::Snapshot snapshot;
  snapshot.weights = to_float(row);
  snapshot.layout_json = layout::to_json(layout);
  snapshot.layout_hash = layout.hash;
  return snapshot;
}

layout::Layout small_layout(std::int64_t width) {
  std::vector<layout::Parameter> parameters(2);
  parameters[0].name = "weight";
  parameters[0].shape = {10, width};
  parameters[1].name = "bias";
  parameters[1].shape = {10};
  return layout::make_layout(parameters);
}

}  // namespace dimred::pca::testing
