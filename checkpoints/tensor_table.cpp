#include "checkpoints/tensor_table.h"

#include <nlohmann/json.hpp>

#include "checkpoints/read_pickle.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/stored_tensor.h"
#include "checkpoints/weights_format.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;
using std::string_view_literals::operator""sv;

using Table = std::vector<StoredTensor>;

Table safetensors_table(const fs::path& path) {
  Table table;
  for (const auto& tensor : read_safetensors_header(path)) {
    table.push_back(
        {tensor.name, tensor.dtype, tensor.shape, {run_of(0, tensor.elements, tensor.offset)}});
  }
  return table;
}

/// The tensor of a row that read_pickle.py has written.
StoredTensor pytorch_tensor(const nlohmann::json& row) {
  StoredTensor tensor{.name = row.at(0), .dtype = row.at(1), .shape = row.at(2)};
  if (row.at(4).is_null()) {
    tensor.role = Role::beside;
    return tensor;
  }
  const std::vector<std::int64_t> first(tensor.shape.size());
  auto& box = tensor.boxes.emplace_back(box_of(tensor.shape, first, tensor.shape, row.at(3)));
  row.at(4).get_to(box.offset);
  return tensor;
}

}  // namespace

// torch.save's zip archive of a pickle and its storages; Python reads the pickle and chooses the
// network in it.
PytorchTable read_pytorch_table(const fs::path& path, const std::string& take) {
  PytorchTable table;
  const auto kind = take.empty() ? "table" : "table of " + take;
  for (const auto& row : read_pickle_json(kind, "PyTorch", path)) {
    if (row.is_string())
      table.remarks.push_back(row.get<std::string>());
    else if (row.is_object())
      row.at("kind").get_to(table.averaging);
    else
      table.tensors.push_back(pytorch_tensor(row));
  }
  return table;
}

Table read_tensor_table(const fs::path& path) {
  if (path.extension() == ".safetensors") return safetensors_table(path);
  const auto& format = weights_format(path);
  auto table = format.table(path);
  if (format.pytorch_name != nullptr)
    for (auto& tensor : table) tensor.name = format.pytorch_name(tensor.name);
  return table;
}

// The length of a header comes first, in 8 bytes.
const WeightsFormat safetensors_format{
    .name = "safetensors",
    .begins = [](std::string_view head) { return head.find("\0\0\0\0{"sv) == 4; },
    .table = safetensors_table};

const WeightsFormat pytorch_format{
    .name = "PyTorch",
    .begins = [](std::string_view head) { return head.starts_with("PK"); },
    .table = [](const fs::path& path) { return read_pytorch_table(path, "").tensors; }};

}  // namespace dimred::checkpoints
