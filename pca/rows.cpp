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

namespace dimred::pca {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::json;

Row snapshot_row(const fs::path& path) {
  const auto info = checkpoints::read_snapshot_info(path);
  return {path,
          {{"F32", 0, info.parameters, info.weights_offset}},
          info.layout_hash,
          info.layout_json,
          info.parameters,
          static_cast<std::int64_t>(fs::file_size(path)),
          info.epoch};
}

Row safetensors_row(const fs::path& path) {
  Row row{.path = path, .runs = {}, .layout_hash = {}, .layout_json = {}};
  std::vector<layout::Parameter> parameters;
  for (const auto& tensor : checkpoints::read_safetensors_header(path)) {
    if (!checkpoints::is_float_type(tensor.dtype) || is_running_statistic(tensor.name)) continue;
    parameters.push_back({tensor.name, tensor.shape});
    row.runs.push_back({tensor.dtype, row.columns, tensor.elements, tensor.offset});
    row.columns += tensor.elements;
  }
  require(row.columns > 0, "[pca::open_source] '{}' holds no float tensors", path);
  set_layout(row, parameters);
  return row;
}

/// Of a row from the first one, for a person; empty where there is none.
std::string difference(const Row& first, const Row& row) {
  if (first.layout_hash == row.layout_hash && first.columns == row.columns) return {};
  if (first.layout_json.empty() || row.layout_json.empty())
    return formatted("expected {} values, received {}", first.columns, row.columns);
  return layout::first_difference(layout::layout_from_json(first.layout_json), row.layout_json);
}

Json to_message(const Row& row) {
  auto runs = Json::array();
  for (const auto& run : row.runs) {
    runs.push_back({run.dtype, run.begin, run.size, run.offset});
  }
  return {row.layout_hash, row.layout_json, row.columns, std::move(runs), row.epoch};
}

void take_message(const Json& message, Row& row) {
  message.at(0).get_to(row.layout_hash);
  message.at(1).get_to(row.layout_json);
  message.at(2).get_to(row.columns);
  for (const auto& run : message.at(3)) {
    row.runs.push_back({run.at(0).get<std::string>(),
                        run.at(1).get<std::int64_t>(),
                        run.at(2).get<std::int64_t>(),
                        run.at(3).get<std::int64_t>()});
  }
  message.at(4).get_to(row.epoch);
}

/// Completes the rows of which each rank has every R-th. As CBOR: a name may hold any bytes.
void share_rows(std::vector<Row>& rows, const Ranks& ranks) {
  const std::size_t size = ranks.size;
  const std::size_t own = ranks.rank;
  auto mine = Json::array();
  for (std::size_t i = own; i < rows.size(); i += size) mine.push_back(to_message(rows[i]));
  std::string text;
  Json::to_cbor(mine, text);
  const auto texts = ranks.gather(text);
  for (std::size_t rank = 0; rank < size; ++rank) {
    if (rank == own) continue;
    const auto theirs = Json::from_cbor(texts[rank]);
    for (std::size_t i = rank; i < rows.size(); i += size) {
      take_message(theirs.at(i / size), rows[i]);
    }
  }
}

}  // namespace

bool is_running_statistic(std::string_view name) {
  return name.ends_with("running_mean") || name.ends_with("running_var");
}

void set_layout(Row& row, const std::vector<layout::Parameter>& parameters) {
  const layout::Layout layout = layout::make_layout(parameters);
  row.layout_hash = layout.hash;
  row.layout_json = layout::to_json(layout);
}

SourceInfo info_of(const std::vector<Row>& rows) {
  const Row& first = rows.front();
  SourceInfo info{.rows = std::ssize(rows),
                  .columns = first.columns,
                  .layout_hash = first.layout_hash,
                  .layout_json = first.layout_json};
  for (const Row& row : rows) {
    require(row.layout_hash == first.layout_hash && row.columns == first.columns,
            "[pca::open_source] '{}' has another layout than '{}': {}",
            row.path,
            first.path,
            difference(first, row));
    info.names.push_back(row.path.string());
    info.files.push_back(row.path);
    if (row.epoch >= 0) info.epochs.push_back(row.epoch);
    info.bytes_verified += row.bytes_verified;
  }
  if (std::ssize(info.epochs) < info.rows) info.epochs.clear();
  return info;
}

void read_runs(const InputFile& file,
               const std::vector<FloatRun>& runs,
               std::int64_t begin,
               std::span<float> out) {
  // The last run that starts at or before `begin`; empty runs share their start with the next.
  auto run = std::ranges::upper_bound(runs, begin, {}, &FloatRun::begin) - 1;
  for (; !out.empty(); ++run) {
    const auto first = begin - run->begin;
    const auto count = std::min(run->size - first, std::ssize(out));
    checkpoints::read_floats(file, run->dtype, run->offset, first, out.first(count));
    out = out.subspan(count);
    begin += count;
  }
}

std::vector<Row> read_rows(const std::vector<fs::path>& files, const Ranks& ranks) {
  std::vector<Row> rows(files.size());
  const std::int64_t own = (std::ssize(files) - ranks.rank + ranks.size - 1) / ranks.size;
  agree(ranks, [&] {
    in_parallel(own, available_threads(), [&](std::int64_t i) {
      const auto index = i * ranks.size + ranks.rank;
      rows[index] = files[index].extension() == ".h5" ? snapshot_row(files[index])
                                                      : safetensors_row(files[index]);
    });
  });
  for (std::size_t i = 0; i < files.size(); ++i) rows[i].path = files[i];
  if (ranks.size > 1) share_rows(rows, ranks);
  return rows;
}

}  // namespace dimred::pca
