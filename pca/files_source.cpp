#include <algorithm>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "checkpoints/atomic_file.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/snapshot.h"
#include "layout/layout.h"
#include "pca/float_file.h"
#include "pca/ordered_sum.h"
#include "pca/sidecar.h"
#include "pca/source.h"
#include "support/errors.h"
#include "support/threads.h"

namespace dimred::pca {
namespace {

/// One row of W: a file, where its values lie in it, and the table that names them.
struct Row {
  std::filesystem::path path;
  std::vector<FloatRun> runs;
  std::string layout_hash;
  std::string layout_json;
  std::int64_t columns = 0;
  std::int64_t bytes_verified = 0;
};

Row snapshot_row(const std::filesystem::path& path) {
  const checkpoints::SnapshotInfo info = checkpoints::read_snapshot_info(path);
  return {path,
          {{FloatType::f32, 0, info.parameters, info.weights_offset}},
          info.layout_hash,
          info.layout_json,
          info.parameters,
          static_cast<std::int64_t>(std::filesystem::file_size(path))};
}

/// BatchNorm's statistics are floats in a state_dict, but no weights.
bool is_running_statistic(std::string_view name) {
  return name.ends_with("running_mean") || name.ends_with("running_var");
}

Row safetensors_row(const std::filesystem::path& path) {
  Row row{.path = path, .runs = {}, .layout_hash = {}, .layout_json = {}};
  std::vector<layout::Parameter> parameters;
  for (const checkpoints::TensorInfo& tensor : checkpoints::read_safetensors_header(path)) {
    const std::optional<FloatType> type = float_type(tensor.dtype);
    if (!type || is_running_statistic(tensor.name)) continue;
    layout::Parameter parameter;
    parameter.name = tensor.name;
    parameter.shape = tensor.shape;
    parameters.push_back(std::move(parameter));
    row.runs.push_back({*type, row.columns, tensor.elements, tensor.offset});
    row.columns += tensor.elements;
  }
  require(row.columns > 0, "pca::open_source", "'", path.string(), "' holds no float tensors");
  const layout::Layout layout = layout::make_layout(parameters);
  row.layout_hash = layout.hash;
  row.layout_json = layout::to_json(layout);
  return row;
}

class FilesSource final : public SnapshotSource {
 public:
  explicit FilesSource(std::vector<Row> rows) : rows_(std::move(rows)) {
    for (const Row& row : rows_) {
      files_.emplace_back(row.path);
      bytes_verified_ += row.bytes_verified;
    }
  }

  std::int64_t rows() const override { return std::ssize(rows_); }
  std::int64_t columns() const override { return rows_.front().columns; }
  std::string layout_hash() const override { return rows_.front().layout_hash; }
  std::string layout_json() const override { return rows_.front().layout_json; }
  std::int64_t bytes_verified() const override { return bytes_verified_; }

  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    const auto index = static_cast<std::size_t>(row);
    read_runs(files_[index], rows_[index].runs, begin, out);
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const Row& row : rows_) names.push_back(row.path.string());
    return names;
  }

  std::vector<std::filesystem::path> files() const override {
    std::vector<std::filesystem::path> files;
    for (const Row& row : rows_) files.push_back(row.path);
    return files;
  }

 private:
  std::vector<Row> rows_;
  std::vector<checkpoints::InputFile> files_;
  std::int64_t bytes_verified_ = 0;
};

void check_same_layout(const std::vector<Row>& rows) {
  const Row& first = rows.front();
  for (const Row& row : rows) {
    if (row.layout_hash == first.layout_hash && row.columns == first.columns) continue;
    throw std::invalid_argument(
        concat("[pca::open_source] '",
               row.path.string(),
               "' has another layout than '",
               first.path.string(),
               "': ",
               layout::first_difference(layout_from_json(first.layout_json), row.layout_json)));
  }
}

}  // namespace

std::unique_ptr<SnapshotSource> open_files(const std::vector<std::filesystem::path>& files) {
  require(!files.empty(), "pca::open_source", "needs at least one file, received none");
  const std::filesystem::path kind = files.front().extension();
  for (const std::filesystem::path& file : files) {
    require(file.extension() == kind && (kind == ".h5" || kind == ".safetensors"),
            "pca::open_source",
            "needs snapshots (.h5) or safetensors files, all of one kind, received '",
            files.front().string(),
            "' and '",
            file.string(),
            "'");
  }
  std::vector<Row> rows(files.size());
  for_each_index(std::ssize(files), available_threads(), [&](std::int64_t i) {
    const auto index = static_cast<std::size_t>(i);
    rows[index] = kind == ".h5" ? snapshot_row(files[index]) : safetensors_row(files[index]);
  });
  check_same_layout(rows);
  return std::make_unique<FilesSource>(std::move(rows));
}

}  // namespace dimred::pca
