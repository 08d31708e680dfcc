#include "merge/output.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/open_file.h"

namespace dimred::merge {
namespace {

namespace fs = std::filesystem;

constexpr auto plan_name = ".plan";

fs::path record_path(const fs::path& folder, const std::string& shard) {
  return folder / formatted(".{}.json", shard);
}

std::string text_at(const fs::path& file) {
  return fs::is_regular_file(file) ? InputFile(file).text(own_json_limits.bytes) : std::string();
}

bool is_side_file(const fs::path& file) {
  constexpr std::array<std::string_view, 13> weights{".safetensors",
                                                     ".bin",
                                                     ".pt",
                                                     ".pth",
                                                     ".ckpt",
                                                     ".h5",
                                                     ".distcp",
                                                     ".msgpack",
                                                     ".onnx",
                                                     ".gguf",
                                                     ".npy",
                                                     ".npz",
                                                     ".tmp"};
  const auto name = file.filename().string();
  return !name.starts_with('.') && !name.ends_with(checkpoints::index_ending) &&
         name != "trainer_state.json" && name != "merge.json" &&
         std::ranges::find(weights, file.extension().string()) == weights.end();
}

std::string_view torch_name(std::string_view dtype) {
  if (dtype == "F32") return "float32";
  return dtype == "F16" ? "float16" : "bfloat16";
}

/// Sets the type that a configuration says, and that of its parts (text_config, vision_config);
/// false: none says any. What a quantisation says of types is its own.
bool set_dtype(nlohmann::ordered_json& config, std::string_view dtype) {
  bool said = false;
  if (!config.is_object()) return said;
  for (auto& [name, value] : config.items()) {
    const bool type = (name == "torch_dtype" || name == "dtype") && value.is_string();
    const bool part = name.ends_with("_config") && name != "quantization_config";
    if (type) value = torch_name(dtype);
    said |= type || (part && set_dtype(value, dtype));
  }
  return said;
}

/// nullopt: the file says no type.
std::optional<std::string> with_dtype(const fs::path& config, std::string_view dtype) {
  auto json = parse_ordered_json(InputFile(config).text(JsonLimits{}.bytes), config.string());
  return set_dtype(json, dtype) ? std::optional(json.dump(2) + "\n") : std::nullopt;
}

/// Whether a folder is what OutputFolder left, at whatever moment its process was killed.
bool is_unfinished_merge(const fs::path& folder) {
  if (!fs::is_directory(fs::symlink_status(folder))) return false;
  if (fs::is_regular_file(folder / plan_name)) return true;
  return std::ranges::all_of(fs::directory_iterator(folder), [](const auto& item) {
    return item.path().filename().string().starts_with('.');
  });
}

/// Gives a copy the permissions that `cp` does: the source's, but for those that the process's mask
/// takes from new files. New files have no execute bits: the mask takes those whose read bits it
/// takes. Some file systems have no permissions to give.
void copy_permissions(const InputFile& from, const AtomicFile& to) {
  struct stat source {
  }, own{};
  require_call(::fstat(from.descriptor(), &source) == 0, "fstat", from.path());
  require_call(::fstat(to.descriptor(), &own) == 0, "fstat", to.temporary_path());
  const auto readable = own.st_mode & 0444U;
  const auto mode = source.st_mode & ((own.st_mode & 0666U) | readable >> 2U);
  if (mode == (own.st_mode & 0777U)) return;
  const bool done = ::fchmod(to.descriptor(), mode) == 0;
  require_call(done || errno == EPERM || errno == EOPNOTSUPP, "fchmod", to.temporary_path());
}

}  // namespace

OutputFolder::OutputFolder(fs::path final_path, const std::string& plan)
    : final_path_(std::move(final_path)), temporary_(final_path_.string() + ".tmp") {
  require(!fs::exists(fs::symlink_status(final_path_)),
          "[merge] '{}' exists already; choose another --output",
          final_path_);
  require(fs::is_directory(final_path_.parent_path()),
          "[merge] needs an existing folder to write '{}' in",
          final_path_);
  require(!fs::exists(fs::symlink_status(temporary_)) || is_unfinished_merge(temporary_),
          "[merge] '{}' is in the way and is no unfinished merge; remove it or choose another "
          "--output",
          temporary_);
  create_folder_in_existing(temporary_);
  lock_ = std::make_unique<checkpoints::FolderLock>(temporary_);
  if (text_at(temporary_ / plan_name) == plan) return;
  clear();
  write_file_atomically(temporary_ / plan_name, plan);
}

std::optional<nlohmann::json> OutputFolder::record(const std::string& shard) const {
  const auto text = text_at(record_path(temporary_, shard));
  try {
    return text.empty() ? std::nullopt : std::optional(parse_json(text, shard, own_json_limits));
  } catch (const std::runtime_error&) {
    return std::nullopt;  // no merge wrote it: the shard is made again
  }
}

void OutputFolder::add_record(const std::string& shard, const nlohmann::json& record) const {
  write_file_atomically(record_path(temporary_, shard), record.dump());
}

void OutputFolder::commit() {
  require(!fs::exists(fs::symlink_status(final_path_)),
          "[merge] '{}' has appeared meanwhile; the merge is whole in '{}'",
          final_path_,
          temporary_);
  std::vector<fs::path> own;
  for (const auto& item : fs::directory_iterator(temporary_)) {
    const auto name = item.path().filename();
    const bool last = name == plan_name || name == checkpoints::FolderLock::file_name;
    if (name.string().starts_with('.') && !last) own.push_back(item.path());
  }
  for (const auto& file : own) fs::remove(file);
  sync_folder(temporary_);
  fs::rename(temporary_, final_path_);
  // These go last: they say that the temporary folder is a merge's, and keep others out.
  for (const auto* name : {plan_name, checkpoints::FolderLock::file_name})
    fs::remove(final_path_ / name);
  sync_folder(final_path_.parent_path());
}

void OutputFolder::discard() {
  clear();
  fs::remove_all(temporary_);
}

void OutputFolder::clear() {
  for (const auto& item : fs::directory_iterator(temporary_)) {
    const auto name = item.path().filename();
    if (name != plan_name && name != checkpoints::FolderLock::file_name)
      fs::remove_all(item.path());
  }
}

std::vector<std::string> left_behind(const fs::path& folder, const std::vector<fs::path>& weights) {
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(folder)) {
    const auto name = item.path().filename().string();
    const bool merged = std::ranges::find(weights, item.path()) != weights.end() ||
                        name.ends_with(checkpoints::index_ending);
    const bool copied = item.is_regular_file() && is_side_file(item.path());
    if (!merged && !copied && !name.starts_with('.')) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

void copy_side_files(const fs::path& from, const fs::path& to, std::string_view dtype) {
  for (const auto& item : fs::directory_iterator(from)) {
    if (!item.is_regular_file() || !is_side_file(item.path())) continue;
    const InputFile source(item.path());
    AtomicFile copy(to / item.path().filename());
    const bool config = !dtype.empty() && item.path().filename() == "config.json";
    if (const auto text = config ? with_dtype(item.path(), dtype) : std::nullopt) {
      copy.append(*text);
    } else {
      source.read(0, [&](ByteView part) { copy.append(part); });
    }
    copy_permissions(source, copy);
    copy.commit();
  }
}

}  // namespace dimred::merge
