#include "checkpoints/snapshot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "checkpoints/finite.h"
#include "checkpoints/hdf5_snapshot.h"
#include "checkpoints/step_names.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view snapshot_magic = "dimred-snapshot 1\n";
constexpr std::string_view digest_name = "xxh3-128 ";
// Where HDF5's superblock of version 0 holds its version and the file's length, and its own length.
constexpr std::size_t superblock_version = 8, superblock_end = 40, superblock_length = 48;

/// Magic line, digest line, zeros: every byte of the block is fixed by the digest.
std::string user_block(const std::string& digest_hex) {
  auto block = formatted("{}{}{}\n", snapshot_magic, digest_name, digest_hex);
  block.resize(user_block_bytes);
  return block;
}

void require_measured_or_nan(double loss, std::string_view name) {
  require(!std::isinf(loss),
          "[snapshot] needs a finite {} (or NaN: not measured), received {}",
          name,
          loss);
}

/// Refuses contents that no run of ours writes, under whatever digest.
void require_in_range(const SnapshotInfo& info) {
  constexpr std::int64_t most = std::int64_t{1} << 53;
  for (const auto& [name, value] : {std::pair("epoch", info.epoch), std::pair("step", info.step)})
    require_environment(value >= 0 && value <= most,
                        "[snapshot] needs a {} of [0, 2^53], received {}: it is damaged, or no run "
                        "of ours wrote it",
                        name,
                        value);
}

/// Checks magic and digest of all bytes.
void verify(const InputFile& file) {
  require(is_snapshot(file.path()),
          "[snapshot] '{}' is not a snapshot: it needs to start with \"dimred-snapshot 1\"",
          file.path());
  require_environment(std::cmp_greater(file.size(), user_block_bytes),
                      "[snapshot] '{}' is damaged: it ends after {} bytes",
                      file.path(),
                      file.size());
  require_environment(
      file.part(0, user_block_bytes) == user_block(file_digest(file.path(), user_block_bytes)),
      "[snapshot] '{}' is damaged: its bytes do not have the digest in its head",
      file.path());
}

std::vector<float> read_finite(const InputFile& file,
                               DatasetExtent extent,
                               const ColumnRanges& columns,
                               std::string_view name) {
  auto values = read_columns<float>(file, extent.offset, extent.count, columns);
  const auto bad = first_not_finite(values);
  require_environment(!bad,
                      "[snapshot] '{}' is damaged: {}[{}] is not finite",
                      file.path(),
                      name,
                      index_in_vector(columns, bad.value_or(0)));
  return values;
}

Hdf5Contents read_verified(const InputFile& file) {
  verify(file);
  try {
    auto contents = read_hdf5(file.path(), file.size());
    for (const auto& [extent, text] : {std::pair(contents.layout, &contents.info.layout_json),
                                       std::pair(contents.run, &contents.info.run_json)})
      *text = file.part(extent.offset, extent.count);
    require_in_range(contents.info);
    return contents;
  } catch (const std::runtime_error& error) {
    fail_environment("[snapshot] '{}': {}", file.path(), error.what());
  }
}

}  // namespace

void write_snapshot(const fs::path& path, const Snapshot& snapshot) {
  require_finite(snapshot.weights, "snapshot", "weights");
  require_finite(snapshot.buffers, "snapshot", "buffers");
  require_measured_or_nan(snapshot.train_loss, "train_loss");
  require_measured_or_nan(snapshot.validation_loss, "validation_loss");
  require(
      !snapshot.weights.empty() && !snapshot.layout_json.empty() && !snapshot.layout_hash.empty(),
      "[snapshot] needs weights and a layout, received an empty one");
  const auto image = hdf5_image(snapshot);
  const auto block = user_block(digest(image));
  AtomicFile file(path);
  file.reserve(std::ssize(block) + std::ssize(image));
  file.append(block);
  file.append(image);
  file.commit();
}

Snapshot read_snapshot(const fs::path& path, const WeightChoice& choose) {
  const InputFile file(path);
  const auto contents = read_verified(file);
  const auto& info = contents.info;
  const auto columns = choose ? choose(info) : std::nullopt;
  return {read_finite(file, {info.weights_offset, info.parameters}, columns, "weights"),
          read_finite(file, contents.buffers, std::nullopt, "buffers"),
          read_columns<std::int64_t>(
              file, contents.counters.offset, contents.counters.count, std::nullopt),
          info.epoch,
          info.step,
          info.train_loss,
          info.validation_loss,
          info.layout_json,
          info.layout_hash,
          info.run_json};
}

SnapshotInfo read_snapshot_info(const fs::path& path) {
  return read_verified(InputFile(path)).info;
}

std::vector<std::string> missing_parameters(const std::string& layout_json) {
  return parse_json(layout_json, "[snapshot] the layout")
      .value("lacks", std::vector<std::string>());
}

std::string snapshot_digest(const fs::path& path) {
  const InputFile file(path);
  const auto head = formatted("{}{}", snapshot_magic, digest_name);
  const auto text =
      file.part(0, user_block_bytes + superblock_length);  // throws where the file ends before
  require_environment(text.starts_with(head), "[snapshot] '{}' has no digest in its head", path);
  std::int64_t length = file.size();
  if (text[user_block_bytes + superblock_version] == 0)
    std::memcpy(&length, &text[user_block_bytes + superblock_end], sizeof(length));
  require_environment(length == file.size(),
                      "[snapshot] '{}' is damaged: needs {} bytes, received {}",
                      path,
                      length,
                      file.size());
  return text.substr(head.size(), text.find('\n', head.size()) - head.size());
}

bool is_snapshot(const fs::path& path) {
  const InputFile file(path);
  return file.begins_with(snapshot_magic);
}

SnapshotStore::SnapshotStore(fs::path folder, std::int64_t keep)
    : folder_(std::move(folder)), keep_(keep) {
  require(keep >= 1, "[SnapshotStore] needs keep >= 1, received {}", keep);
}

fs::path SnapshotStore::save(const Snapshot& snapshot) const {
  create_folder_in_existing(folder_);
  remove_stale_temporaries(folder_, snapshot_file_names.prefix);
  auto path = folder_ / snapshot_file_names.name_of(snapshot.step);
  write_snapshot(path, snapshot);
  remove_oldest(folder_, snapshot_file_names, keep_, path);
  return path;
}

}  // namespace dimred::checkpoints
