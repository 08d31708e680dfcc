#include "tests/pca/laid_out.h"

#include <cmath>

namespace dimred::pca::testing {

layout::Layout layout_of(const std::vector<std::pair<std::string, std::int64_t>>& layers) {
  std::vector<layout::Parameter> parameters;
  for (const auto& [name, size] : layers) {
    layout::Parameter parameter;
    parameter.name = name;
    parameter.shape = {size};
    parameters.push_back(parameter);
  }
  return layout::make_layout(parameters);
}

layout::Layout six_layers() {
  return layout_of(
      {{"conv", 9000}, {"one", 1}, {"still", 600}, {"wide", 30401}, {"bias", 4}, {"dense", 5004}});
}

Matrix layered_snapshots(std::int64_t n, unsigned seed) {
  Matrix matrix = random_matrix(n, layer_columns, seed);
  for (Eigen::Index i = 0; i < n; ++i) matrix.row(i) *= std::pow(0.7, static_cast<double>(i));
  matrix.array() += 3;
  matrix.middleCols(9001, 600).setConstant(0.25);
  return matrix;
}

std::vector<layout::ColumnRange> ranges_of(const layout::Layout& layout) {
  std::vector<layout::ColumnRange> ranges;
  for (const layout::Entry& entry : layout.entries) {
    ranges.push_back({entry.file_offset, entry.file_offset + entry.size});
  }
  return ranges;
}

Matrix columns_of(const Matrix& matrix, const layout::ColumnRange& range) {
  return matrix.middleCols(range.begin, range.size());
}

FitOptions kind_options(Kind kind, std::int64_t components, Blocks blocks) {
  FitOptions options;
  options.components = components;
  options.kind = kind;
  options.blocks = blocks;
  options.seed = 7;
  return options;
}

}  // namespace dimred::pca::testing
