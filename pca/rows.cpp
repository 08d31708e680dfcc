#include "pca/rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "checkpoints/checkpoint.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/weight_digests.h"
#include "checkpoints/weight_names.h"
#include "layout/layout.h"
#include "support/agreement.h"
#include "support/ceiling.h"
#include "support/errors.h"
#include "support/parallel.h"

namespace dimred::pca {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::json;

constexpr std::string_view float64_dtype = "F64";  // as safetensors names it

SnapshotRow snapshot_row(const fs::path& path) {
  const auto info = checkpoints::read_snapshot_info(path);
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path));
  const auto later = info.digests_offset > 0 ? info.parameters * std::int64_t{sizeof(float)} : 0;
  return {path,
          {path},
          {{"F32", 0, info.parameters, info.weights_offset, 0, {}, {}, info.digests_offset}},
          info.layout_hash,
          info.layout_json,
          info.parameters,
          bytes - later,
          info.epoch};
}

/// Where values lie and as what: the same for two names of one weight, as tied weights are in
/// PyTorch's files.
using Values = std::tuple<std::int64_t,
                          std::int64_t,
                          std::size_t,
                          std::string,
                          std::vector<std::int64_t>,
                          std::vector<std::int64_t>>;

/// Whether these are the values of a tensor before it, which `taken` has; else it has them then.
bool is_tied(std::set<Values>& taken, const checkpoints::StoredTensor& tensor) {
  if (tensor.pieces.empty() || tensor.pieces.front().elements == 0) return false;
  const auto& [elements, offset, file] = tensor.pieces.front();
  return !taken.emplace(elements, offset, file, tensor.dtype, tensor.shape, tensor.stride).second;
}

/// The weights among the tensors of the row's files; tied ones once, under the first of their
/// names.
void take_weights(SnapshotRow& row,
                  const std::vector<std::vector<checkpoints::StoredTensor>>& files) {
  std::vector<std::string> names;
  std::vector<bool> floating;
  for (const auto& tensors : files) {
    for (const auto& tensor : tensors) {
      names.push_back(tensor.name);
      floating.push_back(checkpoints::is_float_type(tensor.dtype));
    }
  }
  auto chosen = checkpoints::choose_weights(names, floating);
  row.left_out = std::move(chosen.left_out);
  std::vector<layout::Parameter> parameters;
  auto name = chosen.names.begin();
  for (std::size_t file = 0; file < files.size(); ++file) {
    std::set<Values> taken;
    for (const auto& tensor : files[file]) {
      const auto& weight = *name++;
      if (!weight || is_tied(taken, tensor)) continue;
      parameters.push_back({*weight, tensor.shape});
      for (const auto& piece : tensor.pieces) {
        auto& run = row.runs.emplace_back();
        run = {tensor.dtype, row.columns, piece.elements, piece.offset};
        run.file = file + piece.file;
        if (!tensor.stride.empty()) run.shape = tensor.shape;
        run.stride = tensor.stride;
        row.columns += piece.elements;
      }
    }
  }
  require(row.columns > 0, "[pca::open_source] '{}' holds no float tensors", row.path);
  set_layout(row, parameters);
}

SnapshotRow weights_row(const fs::path& path) {
  auto [files, tensors] = checkpoints::read_checkpoint(path);
  SnapshotRow row{
      .path = path, .files = std::move(files), .runs = {}, .layout_hash = {}, .layout_json = {}};
  take_weights(row, tensors);
  return row;
}

SnapshotRow row_of(const fs::path& path) {
  return path.extension() == ".h5" ? snapshot_row(path) : weights_row(path);
}

/// How a row differs from the first one, for a person; empty where it does not.
std::string difference(const SnapshotRow& first, const SnapshotRow& row) {
  if (first.layout_hash == row.layout_hash && first.columns == row.columns) return {};
  if (first.layout_json.empty() || row.layout_json.empty())
    return formatted("expected {} values, received {}", first.columns, row.columns);
  return layout::first_difference(layout::layout_from_json(first.layout_json), row.layout_json);
}

Json to_message(const SnapshotRow& row) {
  auto runs = Json::array();
  for (const auto& run : row.runs) {
    runs.push_back(
        {run.dtype, run.begin, run.size, run.offset, run.file, run.shape, run.stride, run.digests});
  }
  auto files = Json::array();
  for (const auto& file : row.files) files.push_back(file.string());
  return {
      row.layout_hash, row.layout_json, row.columns, std::move(runs), row.epoch, std::move(files)};
}

void take_message(const Json& message, SnapshotRow& row) {
  message.at(0).get_to(row.layout_hash);
  message.at(1).get_to(row.layout_json);
  message.at(2).get_to(row.columns);
  for (const auto& run : message.at(3)) {
    row.runs.push_back({run.at(0).get<std::string>(),
                        run.at(1).get<std::int64_t>(),
                        run.at(2).get<std::int64_t>(),
                        run.at(3).get<std::int64_t>(),
                        run.at(4).get<std::size_t>(),
                        run.at(5).get<std::vector<std::int64_t>>(),
                        run.at(6).get<std::vector<std::int64_t>>(),
                        run.at(7).get<std::int64_t>()});
  }
  message.at(4).get_to(row.epoch);
  for (const auto& file : message.at(5)) row.files.emplace_back(file.get<std::string>());
}

/// Completes the rows of which each rank has every R-th. As CBOR: a name may hold any bytes.
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

/// Elements [first, first + out.size()) of a run, in the order of the file.
template <class Value>
void read_values(const InputFile& file,
                 const FloatRun& run,
                 std::int64_t first,
                 std::span<Value> out) {
  if constexpr (std::is_same_v<Value, float>) {
    if (run.digests > 0)
      return checkpoints::read_digested(file, {run.offset, run.size, run.digests}, first, out);
    checkpoints::read_floats(file, run.dtype, run.offset, first, out);
  } else if (run.dtype == float64_dtype) {
    file.read(run.offset + first * std::int64_t{sizeof(double)}, std::as_writable_bytes(out));
  } else {
    std::vector<float> values(out.size());
    read_values(file, run, first, std::span(values));
    std::ranges::copy(values, out.begin());
  }
}

/// Elements [first, first + out.size()) in the shape's order. Reads all that lies between those at
/// the least and the greatest distance from the tensor's first.
template <class Value>
void read_strided(const InputFile& file,
                  const FloatRun& run,
                  std::int64_t first,
                  std::span<Value> out) {
  std::vector<std::int64_t> positions(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto rest = first + static_cast<std::int64_t>(i);
    for (std::size_t axis = run.shape.size(); axis-- > 0; rest /= run.shape[axis])
      positions[i] += rest % run.shape[axis] * run.stride[axis];
  }
  const auto [low, high] = std::ranges::minmax(positions);
  std::vector<Value> stored(high - low + 1);
  read_values(file, run, low, std::span(stored));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = stored[positions[i] - low];
}

}  // namespace

void set_layout(SnapshotRow& row, const std::vector<layout::Parameter>& parameters) {
  const layout::Layout layout = layout::make_layout(parameters);
  row.layout_hash = layout.hash;
  row.layout_json = layout::to_json(layout);
}

SourceInfo info_of(const std::vector<SnapshotRow>& rows) {
  const SnapshotRow& first = rows.front();
  SourceInfo info{.rows = std::ssize(rows),
                  .columns = first.columns,
                  .layout_hash = first.layout_hash,
                  .layout_json = first.layout_json};
  double bytes = 0;  // of the values in the files
  for (const SnapshotRow& row : rows) {
    require(row.layout_hash == first.layout_hash && row.columns == first.columns,
            "[pca::open_source] '{}' has another layout than '{}': {}",
            row.path,
            first.path,
            difference(first, row));
    info.names.push_back(row.path.string());
    info.files.insert(info.files.end(), row.files.begin(), row.files.end());
    if (row.epoch >= 0) info.epochs.push_back(row.epoch);
    info.bytes_verified += row.bytes_verified;
    for (const FloatRun& run : row.runs) {
      bytes += static_cast<double>(run.size * checkpoints::bits_of(run.dtype)) / 8;
      info.float64 |= run.dtype == float64_dtype;
    }
  }
  if (bytes > 0) info.item_bytes = bytes / static_cast<double>(info.rows * info.columns);
  info.left_out = first.left_out;
  if (std::ssize(info.epochs) < info.rows) info.epochs.clear();
  return info;
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
    const auto& file = files[run->file];
    if (run->stride.empty()) {
      read_values(file, *run, first, out.first(count));
    } else {
      read_strided(file, *run, first, out.first(count));
    }
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

std::vector<SnapshotRow> read_rows(const std::vector<fs::path>& files, Communicator& communicator) {
  std::vector<SnapshotRow> rows(files.size());
  const std::int64_t rank = communicator.rank();
  const std::int64_t ranks = communicator.size();
  agree(communicator, [&] {
    in_parallel(ceiling(std::ssize(files) - rank, ranks), available_threads(), [&](std::int64_t i) {
      const auto index = i * ranks + rank;
      rows[index] = row_of(files[index]);
    });
  });
  for (std::size_t i = 0; i < files.size(); ++i) rows[i].path = files[i];
  if (ranks > 1) share_rows(rows, communicator);
  return rows;
}

}  // namespace dimred::pca
