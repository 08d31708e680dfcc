#include "checkpoints/tensor_table.h"

#include <nlohmann/json.hpp>

#include "checkpoints/mindspore_weights.h"
#include "checkpoints/read_pickle.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/shape.h"
#include "checkpoints/weights_file.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

using Table = std::vector<StoredTensor>;

Table safetensors_table(const fs::path& path) {
  Table table;
  for (const auto& tensor : read_safetensors_header(path)) {
    table.push_back(
        {tensor.name, tensor.dtype, tensor.shape, {}, {{tensor.elements, tensor.offset}}});
  }
  return table;
}

Table pytorch_table(const fs::path& path) {
  std::string text;
  read_pickle("table", "PyTorch", path, [&](ByteView bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  Table table;
  for (const auto& entry : nlohmann::json::parse(text)) {
    StoredTensor tensor{.name = entry.at(0), .dtype = entry.at(1), .shape = entry.at(2)};
    entry.at(3).get_to(tensor.stride);
    tensor.pieces.push_back({product(tensor.shape).value(), entry.at(4).get<std::int64_t>()});
    table.push_back(std::move(tensor));
  }
  return table;
}

}  // namespace

Table read_tensor_table(const fs::path& path) {
  if (path.extension() == ".safetensors") return safetensors_table(path);
  switch (weights_format(path)) {
    case WeightsFormat::safetensors:
      return safetensors_table(path);
    case WeightsFormat::pytorch:
      return pytorch_table(path);
    default:
      return mindspore_table(path);
  }
}

}  // namespace dimred::checkpoints
