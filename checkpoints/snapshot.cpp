#include "checkpoints/snapshot.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "checkpoints/finite.h"
#include "checkpoints/hdf5_snapshot.h"
#include "checkpoints/shape.h"
#include "checkpoints/step_names.h"
#include "checkpoints/weight_digests.h"
#include "support/atomic_file.h"
#include "support/ceiling.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/printable.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view snapshot_magic = "dimred-snapshot ";
// In version 2 the weights have digests of their own; in version 1 one digest covers all.
constexpr std::string_view format_version = "2\n", version_of_one_digest = "1\n";
constexpr std::string_view digest_name = "xxh3-128 ", weights_name = "weights ";
// Where HDF5's superblock of version 0 holds its version and the file's length, and its own length.
constexpr std::size_t superblock_version = 8, superblock_end = 40, superblock_length = 48;

/// Bytes [begin, end) of a file that the digest in its head leaves out; none in version 1.
struct LeftOut {
  std::int64_t begin = user_block_bytes, end = user_block_bytes;
  bool empty() const { return begin == user_block_bytes; }
};

/// Returns whether a file with this beginning is a snapshot of a readable version.
bool has_magic(std::string_view head) {
  if (!head.starts_with(snapshot_magic)) return false;
  head.remove_prefix(snapshot_magic.size());
  return head.starts_with(format_version) || head.starts_with(version_of_one_digest);
}

std::string line_of(const LeftOut& weights) {
  return formatted("{}{} {}\n", weights_name, weights.begin, weights.end);
}

/// Every byte of it is fixed by what it says; `line`: of the weights, empty in version 1.
std::string user_block(const std::string& digest_hex, const std::string& line) {
  auto block = formatted("{}{}{}{}\n{}",
                         snapshot_magic,
                         line.empty() ? version_of_one_digest : format_version,
                         digest_name,
                         digest_hex,
                         line);
  block.resize(user_block_bytes);
  return block;
}

void require_measured_or_nan(double loss, std::string_view name) {
  require(!std::isinf(loss),
          "[snapshot] needs a finite {}, or NaN if the value was not measured, received {}",
          name,
          loss);
}

/// Refuses contents that no run of ours writes, under whatever digest.
void require_in_range(const SnapshotInfo& info) {
  constexpr std::int64_t most = std::int64_t{1} << 53;
  for (const auto& [name, value] : {std::pair("epoch", info.epoch), std::pair("step", info.step)})
    require_environment(value >= 0 && value <= most,
                        "[snapshot] needs a {} in [0, 2^53], received {}; the snapshot is damaged, "
                        "or dimred did not write the file",
                        name,
                        value);
}

/// Returns the place of the weights by a head of version 2; a missing number is 0.
LeftOut weights_of(std::string_view block) {
  LeftOut weights{0, 0};
  block.remove_prefix(std::min(block.size(), block.find(weights_name)));
  block.remove_prefix(std::min(block.size(), weights_name.size()));
  const char* const end = std::to_address(block.end());
  const auto [space, error] = std::from_chars(std::to_address(block.begin()), end, weights.begin);
  if (error == std::errc() && space != end) std::from_chars(space + 1, end, weights.end);
  return weights;
}

/// The digest of a file's line of weights and of what follows the user block, but for these.
std::string digest_without(const LeftOut& weights, const std::string& line, const InputFile& file) {
  DigestStream stream;
  stream.update(line);
  const auto update = [&](ByteView bytes) { stream.update(bytes); };
  file.read(user_block_bytes, weights.begin, update);
  file.read(weights.end, file.size(), update);
  return stream.hex();
}

/// Compares all but the weights with the digest in the head, and gives their place; in a file of
/// version 1 all, and an empty place.
LeftOut verify(const InputFile& file) {
  const bool ours = is_snapshot(file);
  require(ours,
          "[snapshot] '{}' is not a snapshot: the file needs to start with \"dimred-snapshot 2\" "
          "(or 1){}",
          file.path(),
          ours ? "" : file.placeholder_remark());
  require_environment(std::cmp_greater(file.size(), user_block_bytes),
                      "[snapshot] '{}' is damaged: the file ends after {} bytes",
                      file.path(),
                      file.size());
  const auto block = file.part(0, user_block_bytes);
  const bool one_digest = block.substr(snapshot_magic.size()).starts_with(version_of_one_digest);
  const auto weights = one_digest ? LeftOut() : weights_of(block);
  const auto line = one_digest ? "" : line_of(weights);
  require_environment(
      std::cmp_less_equal(user_block_bytes, weights.begin) && weights.empty() == one_digest &&
          weights.begin <= weights.end && weights.end <= file.size(),
      "[snapshot] '{}' is damaged: the header says that the weights are bytes {} to {} of {}",
      file.path(),
      weights.begin,
      weights.end,
      file.size());
  require_environment(block == user_block(digest_without(weights, line, file), line),
                      "[snapshot] '{}' is damaged: the bytes do not match the digest in the header",
                      file.path());
  return weights;
}

/// Throws std::runtime_error where the weights do not lie where the head says, or have no digests.
void require_placed(const SnapshotInfo& info, const LeftOut& weights) {
  const auto end = info.weights_offset + info.parameters * std::int64_t{sizeof(float)};
  require_environment(info.weights_offset == weights.begin && end == weights.end,
                      "the weights are bytes {} to {}, but the header says {} to {}",
                      info.weights_offset,
                      end,
                      weights.begin,
                      weights.end);
  require_environment(info.digests_offset > 0,
                      "needs {} digests of the weights, received 0",
                      ceiling(info.parameters, weights_per_digest));
}

DigestedWeights digested_weights(const SnapshotInfo& info) {
  return {info.weights_offset, info.parameters, info.digests_offset};
}

void require_finite_in(const InputFile& file,
                       const std::vector<float>& values,
                       const ColumnRanges& columns,
                       std::string_view name) {
  const auto bad = first_not_finite(values);
  require_environment(!bad,
                      "[snapshot] '{}' is damaged: {}[{}] is not finite",
                      file.path(),
                      name,
                      index_in_vector(columns, bad.value_or(0)));
}

std::vector<float> verified_weights(const InputFile& file,
                                    const SnapshotInfo& info,
                                    const ColumnRanges& columns) {
  std::vector<float> values;
  if (info.digests_offset > 0 && !columns) {
    values.resize(info.parameters);
    read_digested(file, digested_weights(info), 0, values);
  } else {
    if (info.digests_offset > 0) verify_weights(file, digested_weights(info));
    values = read_columns<float>(file, info.weights_offset, info.parameters, columns);
  }
  require_finite_in(file, values, columns, "weights");
  return values;
}

/// , "conv.weight"[5]: the element of a tensor that a vector's element is, by the table's rows;
/// empty where they do not say.
std::string tensor_text(const std::string& layout_json, const char* rows, std::int64_t index) {
  try {
    const auto table = parse_json(layout_json, "[snapshot] the layout", table_json_limits);
    for (const auto& row : table.at(rows)) {
      const auto elements = product(row.at("shape").get<std::vector<std::int64_t>>()).value();
      if (index < elements)
        return formatted(", \"{}\"[{}]", printable(row.at("name").get<std::string>()), index);
      index -= elements;
    }
  } catch (const std::exception&) {  // of another program: the vector's index has to do
  }
  return "";
}

void require_finite_vector(const std::vector<float>& values,
                           const char* name,
                           const std::string& layout_json,
                           const char* rows) {
  if (const auto bad = first_not_finite(values))
    refuse("[snapshot] needs finite values, received {} in {}[{}]{}",
           values[*bad],
           name,
           *bad,
           tensor_text(layout_json, rows, *bad));
}

}  // namespace

std::string write_snapshot(const fs::path& path, const Snapshot& snapshot) {
  require_finite_vector(snapshot.weights, "weights", snapshot.layout_json, "parameters");
  require_finite_vector(snapshot.buffers, "buffers", snapshot.layout_json, "buffers");
  require_measured_or_nan(snapshot.train_loss, "train_loss");
  require_measured_or_nan(snapshot.validation_loss, "validation_loss");
  require(
      !snapshot.weights.empty() && !snapshot.layout_json.empty() && !snapshot.layout_hash.empty(),
      "[snapshot] needs weights and a layout, received empty weights or an empty layout");
  const auto [image, weights] = hdf5_image(snapshot);
  const auto begin = weights.offset;
  const auto end = begin + weights.count * std::int64_t{sizeof(float)};
  const auto line = line_of({begin, end});
  DigestStream stream;
  stream.update(line);
  stream.update(std::span(image).first(begin - user_block_bytes));
  stream.update(std::span(image).subspan(end - user_block_bytes));
  auto digest = stream.hex();
  const auto block = user_block(digest, line);
  AtomicFile file(path);
  file.reserve(std::ssize(block) + std::ssize(image));
  file.append(block);
  file.append(image);
  file.commit();
  return digest;
}

Snapshot read_snapshot(const fs::path& path, const WeightChoice& choose) {
  const InputFile file(path);
  const auto info = read_snapshot_info(file);
  const auto columns = choose ? choose(info) : std::nullopt;
  auto weights = verified_weights(file, info, columns);
  auto buffers = read_columns<float>(file, info.buffers_offset, info.buffer_count, std::nullopt);
  require_finite_in(file, buffers, std::nullopt, "buffers");
  return {std::move(weights),
          std::move(buffers),
          read_columns<std::int64_t>(file, info.counters_offset, info.counter_count, std::nullopt),
          info.epoch,
          info.step,
          info.train_loss,
          info.validation_loss,
          info.layout_json,
          info.layout_hash,
          info.run_json};
}

SnapshotInfo read_snapshot_info(const fs::path& path) {
  return read_snapshot_info(InputFile(path));
}

SnapshotInfo read_snapshot_info(const InputFile& file) {
  const auto weights = verify(file);
  try {
    auto info = read_hdf5(file);
    require_in_range(info);
    if (weights.empty())
      info.digests_offset = 0;
    else
      require_placed(info, weights);
    return info;
  } catch (const std::runtime_error& error) {
    fail_environment("[snapshot] '{}': {}", file.path(), error.what());
  }
}

SnapshotInfo verify_snapshot(const fs::path& path) {
  const InputFile file(path);
  const auto info = read_snapshot_info(file);
  if (info.digests_offset > 0) verify_weights(file, digested_weights(info));
  return info;
}

std::map<std::string, std::string> tied_parameters(const std::string& layout_json) {
  return parse_json(layout_json, "[snapshot] the layout", table_json_limits)
      .value("tied", std::map<std::string, std::string>());
}

std::vector<std::string> missing_parameters(const std::string& layout_json) {
  return parse_json(layout_json, "[snapshot] the layout", table_json_limits)
      .value("lacks", std::vector<std::string>());
}

std::string snapshot_digest(const fs::path& path) { return snapshot_digest(InputFile(path)); }

std::string snapshot_digest(const InputFile& file) {
  const auto text =
      file.part(0, user_block_bytes + superblock_length);  // throws where the file ends before
  const auto rest = std::string_view(text).substr(snapshot_magic.size() + format_version.size());
  require_environment(has_magic(text) && rest.starts_with(digest_name),
                      "[snapshot] '{}' has no digest in the header",
                      file.path());
  std::int64_t length = file.size();
  if (text[user_block_bytes + superblock_version] == 0)
    std::memcpy(&length, &text[user_block_bytes + superblock_end], sizeof(length));
  require_environment(length == file.size(),
                      "[snapshot] '{}' is damaged: the file needs {} bytes, received {}",
                      file.path(),
                      length,
                      file.size());
  return std::string(rest.substr(digest_name.size(), rest.find('\n') - digest_name.size()));
}

bool is_snapshot(const fs::path& path) { return is_snapshot(InputFile(path)); }

bool is_snapshot(const InputFile& file) {
  const auto size = static_cast<std::int64_t>(snapshot_magic.size() + format_version.size());
  return has_magic(file.part(0, std::min(size, file.size())));
}

SnapshotStore::SnapshotStore(fs::path folder, std::int64_t keep)
    : folder_(std::move(folder)), keep_(keep) {
  require(keep >= 1, "[SnapshotStore] needs keep >= 1, received {}", keep);
}

SavedSnapshot SnapshotStore::save(const Snapshot& snapshot) const {
  create_folder_in_existing(folder_);
  remove_stale_temporaries(folder_, snapshot_file_names.prefix);
  auto path = folder_ / snapshot_file_names.name_of(snapshot.step);
  auto digest = write_snapshot(path, snapshot);
  remove_oldest(folder_, snapshot_file_names, keep_, path);
  return {std::move(path), std::move(digest)};
}

}  // namespace dimred::checkpoints
