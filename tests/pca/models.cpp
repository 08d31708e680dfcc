#include "tests/pca/models.h"

namespace dimred::pca::testing {

layout::Layout model(bool channels_last) {
  const auto format =
      channels_last ? layout::MemoryFormat::channels_last : layout::MemoryFormat::contiguous;
  std::vector<layout::Parameter> parameters(5);
  parameters[0].name = "conv1.weight";
  parameters[0].shape = {8, 3, 3, 3};
  parameters[0].memory_format = format;
  parameters[1].name = "conv1.bias";
  parameters[1].shape = {7};
  parameters[2].name = "conv2.weight";
  parameters[2].shape = {16, 8, 5, 5};
  parameters[2].memory_format = format;
  parameters[3].name = "dense.weight";
  parameters[3].shape = {130, 131};
  parameters[4].name = "dense.bias";
  parameters[4].shape = {130};
  return layout::make_layout(parameters);
}

std::vector<float> in_memory_order(const layout::Layout& layout, const Matrix& rows) {
  std::vector<float> all;
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    const std::vector<float> file = to_float(rows.row(i));
    std::vector<float> memory(static_cast<std::size_t>(layout.memory_size));
    layout::file_to_memory(layout, file, memory);
    all.insert(all.end(), memory.begin(), memory.end());
  }
  return all;
}

layout::Shard whole(const layout::Layout& layout) { return layout::shard_of(layout, 0, 1); }

}  // namespace dimred::pca::testing
