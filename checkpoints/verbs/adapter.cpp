#include "checkpoints/verbs/adapter.h"

#include "checkpoints/float_sums.h"
#include "support/errors.h"

namespace dimred::verbs {
namespace {

namespace fs = std::filesystem;
using checkpoints::LowRankUpdate;
using checkpoints::StoredTensor;

std::vector<double> values_of(const StoredTensor& tensor, const checkpoints::TensorReader& reader) {
  std::vector<std::byte> bytes(tensor.bytes());
  reader.read(tensor, 0, bytes);
  std::vector<double> values(tensor.elements());
  checkpoints::add_stored(tensor.dtype, bytes, 1, true, values);
  return values;
}

LowRankUpdate read_update(const Adapter& adapter,
                          const checkpoints::LoraUpdate& update,
                          const checkpoints::TensorReader& reader) {
  const auto& a = adapter.checkpoint.tensors[update.a];
  const auto& b = adapter.checkpoint.tensors[update.b];
  const auto rank = a.shape[0];
  auto result = checkpoints::low_rank_update(
      values_of(a, reader), values_of(b, reader), rank, update.transposed);
  result.scale = adapter.config.scale_of(update.module, rank);
  return result;
}

}  // namespace

Adapter open_adapter(const fs::path& folder) {
  const auto file = folder / checkpoints::adapter_config_name;
  require(fs::is_regular_file(file),
          "[convert] --adapter needs a PEFT folder with adapter_config.json, received '{}'",
          folder);
  Adapter adapter;
  adapter.guard.add(file);
  adapter.config = checkpoints::read_lora_config(folder, "convert");
  adapter.checkpoint = checkpoints::open_checkpoint(folder, {.scope = "convert"});
  return adapter;
}

std::vector<LowRankUpdate> read_updates(const Adapter& adapter,
                                        const checkpoints::LoraFold& fold,
                                        const checkpoints::TensorReader& reader) {
  std::vector<LowRankUpdate> updates;
  for (const auto& update : fold.updates) updates.push_back(read_update(adapter, update, reader));
  if (fold.bias) {
    const auto& bias = adapter.checkpoint.tensors[*fold.bias];
    const auto module = checkpoints::lora_factor(bias.name)->module;
    updates.push_back({.scale = adapter.config.scale_of(module),
                       .rank = 1,
                       .columns = 1,
                       .left = values_of(bias, reader),
                       .right = {1}});
  }
  return updates;
}

}  // namespace dimred::verbs
