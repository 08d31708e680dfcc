#include "pca/rows.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "checkpoints/checkpoint.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/shape.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/weight_digests.h"
#include "layout/layout.h"
#include "support/agreement.h"
#include "support/ceiling.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/file_limit.h"
#include "support/parallel.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::pca {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::json;

constexpr std::string_view float64_dtype = "F64";  // as safetensors names it

/// `open`: the file, where it is open already.
SnapshotRow snapshot_row(const fs::path& path, std::vector<InputFile> open) {
  if (open.empty()) open.emplace_back(path);
  const auto& file = open.front();
  FileGuard guard;
  guard.add(path, file.state());
  const auto info = checkpoints::read_snapshot_info(file);
  const auto later = info.digests_offset > 0 ? info.parameters * std::int64_t{sizeof(float)} : 0;
  return {{.columns = info.parameters,
           .names = {path.string()},
           .files = {path},
           .layout_hash = info.layout_hash,
           .layout_json = info.layout_json,
           .epochs = info.epoch < 0 ? std::vector<std::int64_t>() : std::vector{info.epoch},
           .bytes_verified = file.size() - later},
          {{"F32",
            0,
            info.parameters,
            {checkpoints::run_of(0, info.parameters, info.weights_offset)},
            info.digests_offset}},
          std::move(guard),
          {.path = path, .step = info.step, .run = checkpoints::identity_of(info.run_json)},
          std::move(open)};
}

/// Place and type of values: equal for two names of one weight, as tied weights are in PyTorch's
/// files.
using Values =
    std::tuple<std::string, std::vector<std::int64_t>, std::vector<checkpoints::StoredBox>>;

/// Whether the tensor is a weight; throws for one whose values are not those of a network.
bool is_taken(const fs::path& path, const checkpoints::StoredTensor& tensor) {
  require(tensor.role != checkpoints::Role::quantised,
          "[snapshots] '{}': \"{}\" ({}) holds quantised weights; use the unquantised checkpoints "
          "instead",
          path,
          tensor.name,
          tensor.dtype);
  const bool weight = checkpoints::is_weight(tensor.role);
  require(!weight || checkpoints::is_float_type(tensor.dtype),
          "[snapshots] '{}': \"{}\" holds complex weights ({}); save the real and the imaginary "
          "part as two tensors",
          path,
          tensor.name,
          tensor.dtype);
  return weight;
}

/// Whether a tensor's integers may be weights: codes, or several packed in each. Flags, counts and
/// a generator's state are none.
bool may_hold_codes(const checkpoints::StoredTensor& tensor) {
  return tensor.role == checkpoints::Role::buffer && tensor.dtype != "BOOL" &&
         checkpoints::bits_of(tensor.dtype) < 64 && tensor.shape.size() > 1;
}

/// The digest of a tensor's dtype, shape and values.
std::string values_digest(const checkpoints::TensorReader& reader,
                          const checkpoints::StoredTensor& tensor) {
  constexpr std::int64_t block = std::int64_t{1} << 20;  // elements
  const auto unit = tensor.unit();
  DigestStream digest;
  digest.update(Json{tensor.dtype, tensor.shape}.dump());
  std::vector<std::byte> bytes;
  for (std::int64_t first = 0; first < tensor.elements(); first += block) {
    bytes.resize(std::min(block, tensor.elements() - first) * unit);
    reader.read(tensor, first, bytes);
    digest.update(bytes);
  }
  return digest.hex();
}

/// The digests of integers that may be weights, by their names.
std::map<std::string, std::string> codes_of(const checkpoints::Checkpoint& checkpoint) {
  std::map<std::string, std::string> codes;
  if (std::ranges::none_of(checkpoint.tensors, may_hold_codes)) return codes;
  const checkpoints::TensorReader reader(checkpoint);
  for (const auto& tensor : checkpoint.tensors)
    if (may_hold_codes(tensor)) codes.emplace(tensor.name, values_digest(reader, tensor));
  return codes;
}

/// The weights among the tensors of a checkpoint's files; tied ones once, under the first of their
/// names.
SnapshotRow weights_row(const fs::path& path, checkpoints::ArtifactKind kind) {
  auto checkpoint = checkpoints::read_checkpoint(path, kind);
  SourceInfo info{.names = {path.string()}, .left_out = std::move(checkpoint.left_out)};
  std::ranges::copy_if(
      checkpoint.remarks, std::back_inserter(info.remarks), checkpoints::is_about_tensors);
  std::vector<checkpoints::StoredTensor> weights;
  std::ranges::copy_if(checkpoint.tensors, std::back_inserter(weights), [&](const auto& tensor) {
    return is_taken(path, tensor);
  });
  const auto names =
      checkpoints::network_names(texts_of(weights, &checkpoints::StoredTensor::name));
  std::vector<layout::Parameter> parameters;
  std::vector<FloatRun> runs;
  std::set<Values> taken;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto& tensor = weights[i];
    const auto size = tensor.elements();
    if (size > 0 && !taken.emplace(tensor.dtype, tensor.shape, tensor.boxes).second) continue;
    parameters.push_back({names[i], tensor.shape});
    runs.push_back({tensor.dtype, info.columns, size, tensor.boxes});
    info.columns += size;
  }
  require(info.columns > 0, "[snapshots] '{}' holds no float tensors", path);
  set_layout(info, parameters);
  auto codes = codes_of(checkpoint);  // last: it reads as much as the integers take
  info.files = std::move(checkpoint.files);
  return {.info = std::move(info),
          .runs = std::move(runs),
          .guard = std::move(checkpoint.guard),
          .facts = {.path = path, .averaging = std::move(checkpoint.averaging)},
          .codes = std::move(codes)};
}

SnapshotRow row_of(const checkpoints::Member& file, std::vector<InputFile> open) {
  const bool ours = file.kind == checkpoints::ArtifactKind::snapshot;
  return ours ? snapshot_row(file.weights, std::move(open)) : weights_row(file.weights, file.kind);
}

/// Moves snapshots that are open to the first rows; the others are closed.
void take_open(checkpoints::Series& files, std::vector<SnapshotRow>& rows) {
  auto open = std::exchange(files.open, {}).value_or(checkpoints::OpenSnapshots());
  for (std::size_t i = 0; i < std::min(rows.size(), most_open_files()); ++i)
    if (const auto file = open.find(files.members[i].weights); file != open.end())
      rows[i].open.push_back(std::move(file->second));
}

/// How a row differs from the first one, for a person; empty where it does not.
std::string difference(const SourceInfo& first, const SourceInfo& row) {
  if (first.layout_hash == row.layout_hash && first.columns == row.columns) return {};
  if (first.layout_json.empty() || row.layout_json.empty())
    return formatted("expected {} values, received {}", first.columns, row.columns);
  return layout::first_difference(layout::layout_from_json(first.layout_json), row.layout_json);
}

Json boxes_message(const std::vector<checkpoints::StoredBox>& boxes) {
  auto message = Json::array();
  for (const auto& box : boxes) {
    auto dimensions = Json::array();
    for (const auto& [count, step, stored] : box.dimensions)
      dimensions.push_back({count, step, stored});
    message.push_back({box.begin, std::move(dimensions), box.offset, box.file});
  }
  return message;
}

std::vector<checkpoints::StoredBox> boxes_from(const Json& message) {
  std::vector<checkpoints::StoredBox> boxes;
  for (const auto& item : message) {
    auto& box = boxes.emplace_back();
    item.at(0).get_to(box.begin);
    for (const auto& dimension : item.at(1))
      box.dimensions.push_back({dimension.at(0), dimension.at(1), dimension.at(2)});
    item.at(2).get_to(box.offset);
    item.at(3).get_to(box.file);
  }
  return boxes;
}

Json to_message(const SnapshotRow& row) {
  auto runs = Json::array();
  for (const auto& run : row.runs) {
    runs.push_back({run.dtype, run.begin, run.size, boxes_message(run.boxes), run.digests});
  }
  const auto& info = row.info;
  auto files = Json::array();
  for (const auto& file : info.files) files.push_back(file.string());
  const auto& facts = row.facts;
  return {info.layout_hash,
          info.layout_json,
          info.columns,
          std::move(runs),
          info.epochs,
          std::move(files),
          info.names,
          {facts.run.id, facts.run.seed.value_or(-1), facts.run.split_seed.value_or(-1)},
          facts.step.value_or(-1),
          facts.averaging,
          row.codes};
}

/// Seeds are never below 0.
checkpoints::RunIdentity run_from(const Json& message) {
  checkpoints::RunIdentity run{.id = message.at(0), .seed = {}, .split_seed = {}};
  const std::int64_t seed = message.at(1), split_seed = message.at(2);
  if (seed >= 0) run.seed = seed;
  if (split_seed >= 0) run.split_seed = split_seed;
  return run;
}

void take_message(const Json& message, SnapshotRow& row) {
  auto& info = row.info;
  message.at(0).get_to(info.layout_hash);
  message.at(1).get_to(info.layout_json);
  message.at(2).get_to(info.columns);
  for (const auto& run : message.at(3)) {
    row.runs.push_back({run.at(0).get<std::string>(),
                        run.at(1).get<std::int64_t>(),
                        run.at(2).get<std::int64_t>(),
                        boxes_from(run.at(3)),
                        run.at(4).get<std::int64_t>()});
  }
  message.at(4).get_to(info.epochs);
  for (const auto& file : message.at(5)) info.files.emplace_back(file.get<std::string>());
  message.at(6).get_to(info.names);
  auto& facts = row.facts;
  facts.path = info.names.front();
  facts.run = run_from(message.at(7));
  if (const std::int64_t step = message.at(8); step >= 0) facts.step = step;
  message.at(9).get_to(facts.averaging);
  message.at(10).get_to(row.codes);
}

/// Completes the rows; each rank has every R-th. As CBOR: a name may hold any bytes.
void share_rows(std::vector<SnapshotRow>& rows, Communicator& communicator) {
  const std::size_t size = communicator.size();
  const std::size_t own = communicator.rank();
  auto mine = Json::array();
  for (std::size_t i = own; i < rows.size(); i += size) mine.push_back(to_message(rows[i]));
  std::string text;
  Json::to_cbor(mine, text);
  const auto texts = communicator.gather(text);
  for (std::size_t rank = 0; rank < size; ++rank) {
    if (rank == own) continue;
    const auto theirs = Json::from_cbor(texts[rank]);
    for (std::size_t i = rank; i < rows.size(); i += size) {
      take_message(theirs.at(i / size), rows[i]);
    }
  }
}

/// Elements [first, first + out.size()) of a run.
template <class Value>
void read_values(std::span<const InputFile> files,
                 const FloatRun& run,
                 std::int64_t first,
                 std::span<Value> out) {
  const auto unit = checkpoints::bits_of(run.dtype) / 8;
  const auto read = [&](std::span<std::byte> bytes) {
    const auto from = [&](std::size_t file, std::int64_t offset, std::span<std::byte> part) {
      files[file].read(offset, part);
    };
    checkpoints::read_stored(from, run.boxes, unit, first, bytes);
  };
  if constexpr (std::is_same_v<Value, float>) {
    if (run.digests == 0) return checkpoints::read_floats(read, run.dtype, out);
    const auto& box = run.boxes.front();
    checkpoints::read_digested(files[box.file], {box.offset, run.size, run.digests}, first, out);
  } else if (run.dtype == float64_dtype) {
    read(std::as_writable_bytes(out));
  } else {
    std::vector<float> values(out.size());
    read_values(files, run, first, std::span(values));
    std::ranges::copy(values, out.begin());
  }
}

}  // namespace

void set_layout(SourceInfo& row, const std::vector<layout::Parameter>& parameters) {
  const layout::Layout layout = layout::make_layout(parameters);
  row.layout_hash = layout.hash;
  row.layout_json = layout::to_json(layout);
}

void require_same_codes(const std::vector<SnapshotRow>& rows) {
  const auto& first = rows.front();
  for (const auto& row : rows) {
    std::map<std::string, std::string> different;  // those of one row alone, too
    std::ranges::set_symmetric_difference(
        first.codes, row.codes, std::inserter(different, different.end()));
    if (different.empty()) continue;
    refuse(
        "[snapshots] the integers of \"{}\" differ between '{}' and '{}', so they may be "
        "quantised weights; use the unquantised checkpoints instead",
        printable(different.begin()->first),
        first.facts.path,
        row.facts.path);
  }
}

SourceInfo info_of(const std::vector<SnapshotRow>& rows) {
  const SourceInfo& first = rows.front().info;
  SourceInfo all = first;
  all.rows = std::ssize(rows);
  double bytes = 0;  // of the values in the files
  for (const auto& [row, runs, guard, facts, open, codes] : rows) {
    require(row.layout_hash == first.layout_hash && row.columns == first.columns,
            "[snapshots] '{}' has another layout than '{}': {}",
            fs::path(row.names.front()),
            fs::path(first.names.front()),
            difference(first, row));
    if (&row != &first) {
      all.names.push_back(row.names.front());
      all.files.insert(all.files.end(), row.files.begin(), row.files.end());
      all.epochs.insert(all.epochs.end(), row.epochs.begin(), row.epochs.end());
      all.bytes_verified += row.bytes_verified;
      all.float64 |= row.float64;
    }
    for (const FloatRun& run : runs) {
      bytes += static_cast<double>(run.size * checkpoints::bits_of(run.dtype)) / 8;
      all.float64 |= run.dtype == float64_dtype;
    }
  }
  if (bytes > 0) all.item_bytes = bytes / static_cast<double>(all.rows * all.columns);
  if (std::ssize(all.epochs) < all.rows) all.epochs.clear();
  return all;
}

template <class Value>
void read_runs(std::span<const InputFile> files,
               const std::vector<FloatRun>& runs,
               std::int64_t begin,
               std::span<Value> out) {
  // The last run that starts at or before `begin`; empty runs share their start with the next.
  auto run = std::ranges::upper_bound(runs, begin, {}, &FloatRun::begin) - 1;
  for (; !out.empty(); ++run) {
    const auto first = begin - run->begin;
    const auto count = std::min(run->size - first, std::ssize(out));
    read_values(files, *run, first, out.first(count));
    out = out.subspan(count);
    begin += count;
  }
}

template void read_runs(std::span<const InputFile>,
                        const std::vector<FloatRun>&,
                        std::int64_t,
                        std::span<float>);
template void read_runs(std::span<const InputFile>,
                        const std::vector<FloatRun>&,
                        std::int64_t,
                        std::span<double>);

std::vector<SnapshotRow> read_rows(checkpoints::Series& files, Communicator& communicator) {
  std::vector<SnapshotRow> rows(files.members.size());
  take_open(files, rows);
  const std::int64_t rank = communicator.rank();
  const std::int64_t ranks = communicator.size();
  agree(communicator, [&] {
    in_parallel(ceiling(std::ssize(rows) - rank, ranks), available_threads(), [&](std::int64_t i) {
      const auto index = i * ranks + rank;
      rows[index] = row_of(files.members[index], std::move(rows[index].open));
      if (std::cmp_greater_equal(index, most_open_files())) rows[index].open.clear();
    });
  });
  if (ranks > 1) share_rows(rows, communicator);
  return rows;
}

}  // namespace dimred::pca
