#include "checkpoints/artifact.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>

#include "checkpoints/file_names.h"
#include "checkpoints/folder_lock.h"
#include "checkpoints/part_names.h"
#include "checkpoints/rank_files.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/state.h"
#include "checkpoints/weights_format.h"
#include "support/formatted.h"
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
  const InputFile opened(file);
  if (is_snapshot(opened)) return ArtifactKind::snapshot;
  return has_weights_format(opened) ? ArtifactKind::weights : ArtifactKind::unknown;
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

bool holds_nothing(const fs::path& folder) {
  if (!fs::exists(folder)) return true;
  return std::ranges::all_of(fs::directory_iterator(folder), [](const auto& item) {
    const auto name = item.path().filename();
    return name == FolderLock::file_name || name == std::string(config_name) + ".tmp";
  });
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
  return type_at(whole) != fs::file_type::not_found ? fs::path(whole) : index;
}

namespace {

constexpr std::array customary_names{
    "model.safetensors", "pytorch_model.bin", "adapter_model.safetensors", "adapter_model.bin"};

/// Whether a file lies at a path, or a link, which may lead nowhere.
bool is_named(const fs::path& path) {
  return fs::symlink_status(path).type() != fs::file_type::not_found;
}

/// The name of a file's only shard: model-00001-of-00001.safetensors.
fs::path only_shard(const fs::path& file) {
  auto name = file.stem();
  return file.parent_path() / (name += "-00001-of-00001" + file.extension().string());
}

/// The first that has a name of weights, also as a link that leads nowhere: other weights beside
/// the link are no substitute.
fs::path named_weights_in(const fs::path& folder) {
  for (const auto* name : customary_names) {
    const auto index = folder / (name + std::string(index_ending));
    for (const auto& weights : {whole_or_index(index), folder / name, only_shard(folder / name)})
      if (is_named(weights)) return weights;
  }
  if (type_at(folder / distributed_name) == fs::file_type::regular)
    return folder / distributed_name;
  // An export, beside which its reference lies.
  const auto exported = folder / "weights.safetensors";
  return fs::exists(folder / "signature.json") && fs::exists(exported) ? exported : fs::path();
}

}  // namespace

fs::path weights_in(const fs::path& folder) {
  auto weights = named_weights_in(folder);
  return weights.empty() ? rank_weights_in(folder) : weights;
}

bool is_customary_name(const fs::path& file) {
  return std::ranges::any_of(customary_names, [&](const fs::path& name) {
    return file.filename() == name || file.filename() == only_shard(name);
  });
}

namespace {

/// The shard NAME-00001-of-M of whatever M, without an index; empty: there is none.
fs::path first_shard_of(const fs::path& folder, std::string_view name) {
  const auto begin = formatted("{}-00001-of-", name);
  std::error_code unlisted;  // for a remark alone
  for (const auto& item : fs::directory_iterator(folder.empty() ? "." : folder, unlisted))
    if (item.path().filename().string().starts_with(begin) && is_weight_name(item.path()))
      return item.path();
  return {};
}

}  // namespace

fs::path adapter_beside(const fs::path& weights) {
  constexpr std::string_view adapter = "adapter_model";
  const auto name = weights.filename().string();
  if (name.starts_with(adapter) || named_weights_in(weights.parent_path()) != weights) return {};
  const auto folder = weights.parent_path();
  for (const std::string_view ending : {".safetensors", ".bin"}) {
    const auto file = folder / formatted("{}{}", adapter, ending);
    for (const auto& named : {file, fs::path(file.string() + std::string(index_ending))})
      if (is_named(named)) return named;
  }
  return first_shard_of(folder, adapter);
}

fs::path name_of(const fs::path& weights) {
  const auto folder = weights.parent_path();
  // A folder of many files is searched for those of ranks where one of them is named alone.
  const auto own = rank_file(weights) ? weights_in(folder) : named_weights_in(folder);
  return own == weights ? folder : weights;
}

}  // namespace dimred::checkpoints
