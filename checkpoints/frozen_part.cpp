#include "checkpoints/frozen_part.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoints/tensor_table.h"
#include "checkpoints/weight_names.h"
#include "layout/layout.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

/// The tensors of these names in their order; where there are none, all in the file's order.
std::vector<StoredTensor> listed(const fs::path& file, const std::vector<std::string>& names) {
  auto all = read_tensor_table(file);
  if (names.empty()) return all;
  std::vector<StoredTensor> tensors;
  for (const auto& name : names) {
    const auto found = std::ranges::find(all, name, &StoredTensor::name);
    require(found != all.end(),
            "[checkpoints] '{}' has no tensor \"{}\"; this tensor is needed, because the snapshots "
            "beside this file hold only trainable parameters",
            file,
            name);
    tensors.push_back(*found);
  }
  return tensors;
}

}  // namespace

fs::path frozen_file_of(const fs::path& path) {
  auto folder = fs::absolute(path).lexically_normal();
  for (int level = 0; level < 3; ++level, folder = folder.parent_path()) {
    if (fs::exists(folder / frozen_file_name)) return folder / frozen_file_name;
  }
  return {};
}

void FrozenPart::verify() const {
  std::vector<layout::Parameter> table;
  for (const auto& tensor : tensors) table.push_back({tensor.name, tensor.shape});
  auto stream = layout::frozen_digest(layout::make_layout(table));
  const InputFile input(file);
  const auto read = [&](std::size_t /*file*/, std::int64_t offset, std::span<std::byte> out) {
    input.read(offset, out);
  };
  constexpr std::int64_t unit = sizeof(float);
  constexpr std::int64_t block = std::int64_t{1} << 18;  // elements
  std::vector<std::byte> bytes;
  for (const auto& tensor : tensors) {
    const auto count = tensor.elements();
    for (std::int64_t first = 0; first < count; first += block) {
      bytes.resize(std::min(block, count - first) * unit);
      read_stored(read, tensor.boxes, unit, first, bytes);
      stream.update(bytes);
    }
  }
  require_environment(stream.hex() == digest,
                      "[checkpoints] '{}' is not the frozen part of the snapshots in this folder: "
                      "the file has the digest {}, but the snapshots need {}",
                      file,
                      stream.hex(),
                      digest);
}

std::optional<FrozenPart> frozen_part_of(const fs::path& snapshot, const nlohmann::json& table) {
  const auto lacks = table.value("lacks", std::vector<std::string>());
  const auto digest = table.value("frozen", std::string());
  if (digest.empty() && lacks.empty()) return {};
  const auto file = frozen_file_of(snapshot);
  require(
      lacks.empty() || !file.empty(),
      "[checkpoints] '{}' has no values of {}, because the run recorded only trainable parameters; "
      "put these values into the file {} beside the snapshots, or record with trainable_only=False",
      snapshot,
      count_and_names(lacks),
      frozen_file_name);
  require(!file.empty(),
          "[checkpoints] '{}' cannot be read, because the file {} of the run is missing",
          snapshot,
          frozen_file_name);
  FrozenPart part{file, listed(file, lacks), digest};
  for (const auto& tensor : part.tensors)
    require(tensor.dtype == "F32",
            "[checkpoints] '{}' needs float32 values, received \"{}\" of type {}",
            file,
            tensor.name,
            tensor.dtype);
  return part;
}

}  // namespace dimred::checkpoints
