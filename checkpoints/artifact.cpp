#include "checkpoints/artifact.h"

#include <string>

#include "checkpoints/file_names.h"
#include "checkpoints/part_names.h"
#include "checkpoints/rank_files.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/state.h"
#include "checkpoints/weights_format.h"
#include "support/list_files.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

constexpr auto distributed_name = ".metadata";

ArtifactKind kind_of_folder(const fs::path& folder, const fs::path& weights) {
  if (is_state(folder)) return ArtifactKind::state;
  if (is_run(folder)) return ArtifactKind::run;
  if (rank_file(weights)) return ArtifactKind::ranks;
  return weights.empty() ? ArtifactKind::series : ArtifactKind::folder;
}

ArtifactKind kind_of_file(const fs::path& file) {
  if (file.filename() == distributed_name) return ArtifactKind::distributed;
  if (file.string().ends_with(index_ending)) return ArtifactKind::index;
  if (file.extension() == ".txt") return ArtifactKind::list;
  if (file.extension() == ".npy") return ArtifactKind::matrix;
  if (file.extension() == ".h5") return ArtifactKind::snapshot;
  if (is_weight_name(file)) return part_in_name(file) ? ArtifactKind::part : ArtifactKind::weights;
  if (is_snapshot(file)) return ArtifactKind::snapshot;
  return has_weights_format(file) ? ArtifactKind::weights : ArtifactKind::unknown;
}

}  // namespace

bool Artifact::is_one() const {
  return kind == ArtifactKind::run || kind == ArtifactKind::state || !weights.empty();
}

bool Artifact::is_several() const {
  return kind == ArtifactKind::series || kind == ArtifactKind::list ||
         kind == ArtifactKind::pattern;
}

Artifact look(const fs::path& path) {
  if (is_pattern(path)) return {path, ArtifactKind::pattern, {}};
  if (!fs::exists(path)) return {path, ArtifactKind::missing, {}};
  if (fs::is_directory(path)) {
    const auto weights = weights_in(path);
    const auto kind = kind_of_folder(path, weights);
    const bool of_one = kind == ArtifactKind::folder || kind == ArtifactKind::ranks;
    return {path, kind, of_one ? weights : fs::path()};
  }
  const auto kind = kind_of_file(path);
  switch (kind) {
    case ArtifactKind::list:
    case ArtifactKind::matrix:
    case ArtifactKind::part:
    case ArtifactKind::unknown:
      return {path, kind, {}};
    default:
      return {path, kind, path};
  }
}

bool is_run(const fs::path& folder) {
  return fs::exists(folder / config_name) || !states_of(folder).empty();
}

fs::path run_of(const fs::path& path) {
  if (path.empty()) return {};
  auto folder = fs::absolute(path).lexically_normal();
  for (int level = 0; level < 3; ++level, folder = folder.parent_path()) {
    if (is_run(folder)) return folder;
  }
  return {};
}

fs::path snapshots_of(const fs::path& path) {
  auto folder = path / "snapshots";
  return fs::is_directory(folder) ? folder : path;
}

fs::path whole_or_index(const fs::path& index) {
  auto whole = index.string();
  whole.resize(whole.size() - index_ending.size());
  return fs::exists(whole) ? fs::path(whole) : index;
}

namespace {

fs::path named_weights_in(const fs::path& folder) {
  for (const auto* name : {"model.safetensors",
                           "pytorch_model.bin",
                           "adapter_model.safetensors",
                           "adapter_model.bin"}) {
    const auto index = folder / (name + std::string(index_ending));
    if (const auto weights = whole_or_index(index); fs::exists(weights)) return weights;
  }
  if (fs::is_regular_file(folder / distributed_name)) return folder / distributed_name;
  // An export, beside which its reference lies.
  const auto exported = folder / "weights.safetensors";
  return fs::exists(folder / "signature.json") && fs::exists(exported) ? exported : fs::path();
}

}  // namespace

fs::path weights_in(const fs::path& folder) {
  auto weights = named_weights_in(folder);
  return weights.empty() ? rank_weights_in(folder) : weights;
}

fs::path name_of(const fs::path& weights) {
  const auto folder = weights.parent_path();
  // A folder of many files is searched for those of ranks where one of them is named alone.
  const auto own = rank_file(weights) ? weights_in(folder) : named_weights_in(folder);
  return own == weights ? folder : weights;
}

}  // namespace dimred::checkpoints
