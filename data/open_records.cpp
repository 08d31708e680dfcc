#include "data/open_records.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "data/packed.h"
#include "data/paths.h"
#include "data/record_readers.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

fs::path packed_file(const fs::path& path, bool train, bool named) {
  if (fs::is_regular_file(path) && (train || named)) return path;
  for (const auto& name : split_names(train)) {
    auto file = path / formatted("{}.packed", name);
    if (fs::is_regular_file(file)) return file;
  }
  return {};
}

std::vector<fs::path> base64_files(const fs::path& path, bool train, bool named) {
  const bool whole = train || named;
  if (fs::is_regular_file(path) && whole) return {path};
  for (const auto& name : split_names(train)) {
    if (fs::is_regular_file(path / name / "file_list.txt")) return {path / name / "file_list.txt"};
  }
  if (whole && fs::is_regular_file(path / "file_list.txt")) return {path / "file_list.txt"};
  if (whole && !fs::is_directory(path)) return find_shards(path, train);
  return {};
}

std::vector<fs::path> tfrecord_files(const fs::path& path, bool train, bool named) {
  if (train) return find_shards(path, train);
  if (!named && !fs::is_directory(path)) return {};
  auto files = shards_at(path, train);
  return files.empty() && named ? find_shards(path, /*train=*/true) : files;
}

/// Where they would lie if they were here; `path` is their folder, or a pattern in it.
std::vector<fs::path> files_of(const ShardSource& source, const fs::path& path) {
  const auto folder = fs::is_directory(path) ? path : path.parent_path();
  std::vector<fs::path> files;
  for (const auto& shard : source.shards()) files.push_back(folder / shard.name);
  return files;
}

/// Looks at a few files only: a folder may hold a million images.
bool begins_with_tfrecord(const fs::path& folder) {
  int left = 16;
  for (const auto& item : fs::directory_iterator(folder)) {
    if (!item.is_regular_file()) continue;
    if (is_tfrecord(item.path())) return true;
    if (--left == 0) break;
  }
  return false;
}

bool is_tfrecord_folder(const fs::path& folder) {
  std::vector<std::string> names = {"."};
  for (const bool train : {true, false})
    std::ranges::copy(split_names(train), std::back_inserter(names));
  return std::ranges::any_of(names, [&](const std::string& name) {
    return fs::is_directory(folder / name) && begins_with_tfrecord(folder / name);
  });
}

bool holds_packed(const fs::path& folder) {
  return std::ranges::any_of(fs::directory_iterator(folder), [](const auto& item) {
    return item.path().extension() == ".packed" && is_packed(item.path());
  });
}

}  // namespace

std::optional<DatasetKind> record_kind(const fs::path& path) {
  if (fs::is_directory(path)) {
    if (holds_packed(path)) return DatasetKind::packed;
    if (fs::exists(path / "file_list.txt") || fs::exists(path / "train" / "file_list.txt"))
      return DatasetKind::base64;
    return is_tfrecord_folder(path) ? std::optional(DatasetKind::tfrecord) : std::nullopt;
  }
  if (path.filename() == "file_list.txt") return DatasetKind::base64;
  if (fs::is_regular_file(path) && is_packed(path)) return DatasetKind::packed;
  try {
    const auto files = shards_at(path, /*train=*/true);
    if (!files.empty() && is_tfrecord(files.front())) return DatasetKind::tfrecord;
  } catch (const std::exception&) {
    // A list of something else.
  }
  return std::nullopt;
}

std::unique_ptr<Dataset> open_records(DatasetKind kind,
                                      const fs::path& path,
                                      const DatasetOptions& options,
                                      bool train,
                                      bool named,
                                      const std::vector<std::string>& class_names) {
  if (kind == DatasetKind::packed) {
    const auto file = packed_file(path, train, named);
    return file.empty() ? nullptr : open_packed(file);
  }
  const bool tfrecord = kind == DatasetKind::tfrecord;
  auto source = train ? source_of(path) : nullptr;
  const RecordOptions records{.files = source     ? files_of(*source, path)
                                       : tfrecord ? tfrecord_files(path, train, named)
                                                  : base64_files(path, train, named),
                              .class_names = class_names,
                              .classes = options.num_classes,
                              .labels_offset = options.labels_offset,
                              .skip_bad = options.skip_bad,
                              .cache = options.cache,
                              .source = std::move(source)};
  if (records.files.empty()) return nullptr;
  return tfrecord ? open_tfrecord(records) : open_base64(records);
}

}  // namespace dimred::data
