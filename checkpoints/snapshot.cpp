#include "checkpoints/snapshot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "checkpoints/atomic_file.h"
#include "checkpoints/digest.h"
#include "checkpoints/finite.h"
#include "checkpoints/hdf5_snapshot.h"
#include "support/errors.h"

namespace dimred::checkpoints {
namespace {

constexpr std::string_view kMagic = "dimred-snapshot 1\n";
constexpr std::string_view kDigestName = "xxh3-128 ";
using UserBlock = std::array<char, kUserBlock>;

/// Magic line, digest line, zeros: every byte of the block is fixed by the digest.
UserBlock user_block(const std::string& digest_hex) {
  UserBlock block{};
  const std::string text = concat(kMagic, kDigestName, digest_hex, '\n');
  std::ranges::copy(text, block.begin());
  return block;
}

void require_measured_or_nan(double loss, std::string_view name) {
  require(!std::isinf(loss),
          "snapshot",
          "needs a finite ",
          name,
          " (or NaN: not measured), received ",
          loss);
}

/// Checks magic and digest of all bytes.
void verify(const InputFile& file) {
  require(is_snapshot(file.path()),
          "snapshot",
          "'",
          file.path().string(),
          "' is not a snapshot: it needs to start with \"dimred-snapshot 1\"");
  require_environment(file.size() > std::ssize(UserBlock{}),
                      "snapshot",
                      "'",
                      file.path().string(),
                      "' is damaged: it ends after ",
                      file.size(),
                      " bytes");
  UserBlock block;
  file.read(0, std::as_writable_bytes(std::span(block)));
  require_environment(block == user_block(file_digest(file.path(), kUserBlock)),
                      "snapshot",
                      "'",
                      file.path().string(),
                      "' is damaged: its bytes do not have the digest in its head");
}

template <class T>
std::vector<T> read_values(const InputFile& file, DatasetPlace place) {
  return read_columns<T>(file, place.offset, place.count, std::nullopt);
}

std::vector<float> read_finite(const InputFile& file,
                               DatasetPlace place,
                               const ColumnRanges& columns,
                               std::string_view name) {
  auto values = read_columns<float>(file, place.offset, place.count, columns);
  const auto bad = first_not_finite(values);
  require_environment(!bad,
                      "snapshot",
                      "'",
                      file.path().string(),
                      "' is damaged: ",
                      name,
                      '[',
                      place_in_vector(columns, bad.value_or(0)),
                      "] is not finite");
  return values;
}

Hdf5Contents read_verified(const InputFile& file) {
  verify(file);
  try {
    Hdf5Contents contents = read_hdf5(file.path(), file.size());
    const std::vector<char> text = read_values<char>(file, contents.layout);
    contents.info.layout_json.assign(text.begin(), text.end());
    return contents;
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(concat("[snapshot] '", file.path().string(), "': ", error.what()));
  }
}

}  // namespace

void write_snapshot(const std::filesystem::path& path, const Snapshot& snapshot) {
  require_finite(snapshot.weights, "snapshot", "weights");
  require_finite(snapshot.buffers, "snapshot", "buffers");
  require_measured_or_nan(snapshot.train_loss, "train_loss");
  require_measured_or_nan(snapshot.validation_loss, "validation_loss");
  require(
      !snapshot.weights.empty() && !snapshot.layout_json.empty() && !snapshot.layout_hash.empty(),
      "snapshot",
      "needs weights and a layout, received an empty one");
  const std::vector<std::byte> image = hdf5_image(snapshot);
  const UserBlock block = user_block(digest(image));
  AtomicFile file(path);
  file.reserve(std::ssize(block) + std::ssize(image));
  file.append(std::as_bytes(std::span(block)));
  file.append(image);
  file.commit();
}

Snapshot read_snapshot(const std::filesystem::path& path, const WeightChoice& choose) {
  const InputFile file(path);
  const Hdf5Contents contents = read_verified(file);
  const SnapshotInfo& info = contents.info;
  const auto columns = choose ? choose(info) : std::nullopt;
  return {read_finite(file, {info.weights_offset, info.parameters}, columns, "weights"),
          read_finite(file, contents.buffers, std::nullopt, "buffers"),
          read_values<std::int64_t>(file, contents.counters),
          info.epoch,
          info.step,
          info.train_loss,
          info.validation_loss,
          info.layout_json,
          info.layout_hash};
}

SnapshotInfo read_snapshot_info(const std::filesystem::path& path) {
  return read_verified(InputFile(path)).info;
}

bool is_snapshot(const std::filesystem::path& path) {
  const InputFile file(path);
  if (file.size() < std::ssize(kMagic)) return false;
  std::array<char, kMagic.size()> start{};
  file.read(0, std::as_writable_bytes(std::span(start)));
  return std::string_view(start.data(), start.size()) == kMagic;
}

}  // namespace dimred::checkpoints
