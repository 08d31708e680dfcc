#include "pca/rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "checkpoints/safetensors.h"
#include "checkpoints/snapshot.h"
#include "layout/layout.h"
#include "support/errors.h"
#include "support/parallel.h"
#include "support/threads.h"

namespace dimred::pca {
namespace {

using Json = nlohmann::json;

Row snapshot_row(const std::filesystem::path& path) {
  const checkpoints::SnapshotInfo info = checkpoints::read_snapshot_info(path);
  return {path,
          {{"F32", 0, info.parameters, info.weights_offset}},
          info.layout_hash,
          info.layout_json,
          info.parameters,
          static_cast<std::int64_t>(std::filesystem::file_size(path)),
          info.epoch};
}

/// BatchNorm's statistics are floats in a state_dict, but no weights.
bool is_running_statistic(std::string_view name) {
  return name.ends_with("running_mean") || name.ends_with("running_var");
}

Row safetensors_row(const std::filesystem::path& path) {
  Row row{.path = path, .runs = {}, .layout_hash = {}, .layout_json = {}};
  std::vector<layout::Parameter> parameters;
  for (const checkpoints::TensorInfo& tensor : checkpoints::read_safetensors_header(path)) {
    if (!checkpoints::is_float_type(tensor.dtype) || is_running_statistic(tensor.name)) continue;
    layout::Parameter parameter;
    parameter.name = tensor.name;
    parameter.shape = tensor.shape;
    parameters.push_back(std::move(parameter));
    row.runs.push_back({tensor.dtype, row.columns, tensor.elements, tensor.offset});
    row.columns += tensor.elements;
  }
  require(row.columns > 0, "[pca::open_source] '{}' holds no float tensors", path);
  const layout::Layout layout = layout::make_layout(parameters);
  row.layout_hash = layout.hash;
  row.layout_json = layout::to_json(layout);
  return row;
}

Json to_message(const Row& row) {
  Json runs = Json::array();
  for (const FloatRun& run : row.runs) {
    runs.push_back({run.dtype, run.begin, run.size, run.offset});
  }
  return {row.layout_hash, row.layout_json, row.columns, std::move(runs), row.epoch};
}

void take_message(const Json& message, Row& row) {
  message.at(0).get_to(row.layout_hash);
  message.at(1).get_to(row.layout_json);
  message.at(2).get_to(row.columns);
  for (const Json& run : message.at(3)) {
    row.runs.push_back({run.at(0).get<std::string>(),
                        run.at(1).get<std::int64_t>(),
                        run.at(2).get<std::int64_t>(),
                        run.at(3).get<std::int64_t>()});
  }
  message.at(4).get_to(row.epoch);
}

/// Completes the rows of which each rank has every R-th. As CBOR: a name may hold any bytes.
void share_rows(std::vector<Row>& rows, const Ranks& ranks) {
  const auto size = static_cast<std::size_t>(ranks.size);
  const auto own = static_cast<std::size_t>(ranks.rank);
  Json mine = Json::array();
  for (std::size_t i = own; i < rows.size(); i += size) mine.push_back(to_message(rows[i]));
  std::string text;
  Json::to_cbor(mine, text);
  const std::vector<std::string> texts = ranks.gather(text);
  for (std::size_t rank = 0; rank < size; ++rank) {
    if (rank == own) continue;
    const Json theirs = Json::from_cbor(texts[rank]);
    for (std::size_t i = rank; i < rows.size(); i += size) {
      take_message(theirs.at(i / size), rows[i]);
    }
  }
}

}  // namespace

void read_runs(const InputFile& file,
               const std::vector<FloatRun>& runs,
               std::int64_t begin,
               std::span<float> out) {
  // The last run that starts at or before `begin`; empty runs share their start with the next.
  auto run = std::ranges::upper_bound(runs, begin, {}, &FloatRun::begin) - 1;
  for (; !out.empty(); ++run) {
    const std::int64_t first = begin - run->begin;
    const auto count = std::min(static_cast<std::size_t>(run->size - first), out.size());
    checkpoints::read_floats(file, run->dtype, run->offset, first, out.first(count));
    out = out.subspan(count);
    begin += static_cast<std::int64_t>(count);
  }
}

std::vector<Row> read_rows(const std::vector<std::filesystem::path>& files, const Ranks& ranks) {
  std::vector<Row> rows(files.size());
  const std::int64_t own = (std::ssize(files) - ranks.rank + ranks.size - 1) / ranks.size;
  agree(ranks, [&] {
    in_parallel(own, available_threads(), [&](std::int64_t i) {
      const auto index = static_cast<std::size_t>(i * ranks.size + ranks.rank);
      rows[index] = files[index].extension() == ".h5" ? snapshot_row(files[index])
                                                      : safetensors_row(files[index]);
    });
  });
  for (std::size_t i = 0; i < files.size(); ++i) rows[i].path = files[i];
  if (ranks.size > 1) share_rows(rows, ranks);
  return rows;
}

}  // namespace dimred::pca
