#include "pca/source.h"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <utility>

#include "checkpoints/snapshot_list.h"
#include "layout/layout.h"
#include "pca/exchange.h"
#include "pca/float_file.h"
#include "pca/npy_matrix.h"
#include "pca/rows.h"
#include "pca/sidecar.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/list_files.h"

namespace dimred::pca {
namespace {

/// Some rows of another source, which must outlive it.
class SelectedSource final : public SnapshotSource {
 public:
  SelectedSource(const SnapshotSource& source, std::vector<std::int64_t> rows)
      : source_(source), rows_(std::move(rows)) {}

  std::int64_t rows() const override { return std::ssize(rows_); }
  std::int64_t columns() const override { return source_.columns(); }
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    source_.read(rows_[static_cast<std::size_t>(row)], begin, out);
  }
  std::vector<std::string> names() const override { return of_rows(source_.names()); }
  std::vector<std::filesystem::path> files() const override { return source_.files(); }
  std::string layout_hash() const override { return source_.layout_hash(); }
  std::string layout_json() const override { return source_.layout_json(); }
  std::vector<std::int64_t> epochs() const override { return of_rows(source_.epochs()); }
  std::int64_t bytes_verified() const override { return source_.bytes_verified(); }
  int item_bytes() const override { return source_.item_bytes(); }

 private:
  template <class Value>
  std::vector<Value> of_rows(const std::vector<Value>& all) const {
    std::vector<Value> some;
    for (const std::int64_t row : rows_) {
      if (!all.empty()) some.push_back(all[static_cast<std::size_t>(row)]);
    }
    return some;
  }

  const SnapshotSource& source_;
  std::vector<std::int64_t> rows_;
};

/// The unit that a range counts in: the rows' epochs, or their positions counted from 1.
struct Positions {
  std::vector<std::int64_t> values;  // [rows]
  bool epochs = false;
};

Positions positions_of(const SnapshotSource& source) {
  Positions positions{source.epochs(), true};
  if (std::ssize(positions.values) == source.rows()) return positions;
  positions.values.resize(static_cast<std::size_t>(source.rows()));
  std::iota(positions.values.begin(), positions.values.end(), 1);
  positions.epochs = false;
  return positions;
}

std::vector<std::int64_t> rows_in(const SnapshotSource& source, const SnapshotRange& range) {
  require(range.from >= 0 && range.to >= 0 && range.skip >= 0 &&
              (range.to == 0 || range.from <= range.to),
          "[pca::fit] needs 0 <= from <= to (or to = 0) and skip >= 0, received from = {}, to = "
          "{}, skip = {}",
          range.from,
          range.to,
          range.skip);
  const Positions positions = positions_of(source);
  std::vector<std::int64_t> rows;
  std::int64_t left_out = range.skip;  // since the last one taken
  for (std::int64_t i = 0; i < source.rows(); ++i) {
    const std::int64_t position = positions.values[static_cast<std::size_t>(i)];
    if (position < range.from || (range.to > 0 && position > range.to)) continue;
    if (left_out++ < range.skip) continue;
    rows.push_back(i);
    left_out = 0;
  }
  const auto [first, last] = std::ranges::minmax(positions.values);
  require(
      !rows.empty(),
      "[pca::fit] needs snapshots in the range given, received from = {}, to = {} of {}{} to {}",
      range.from,
      range.to,
      positions.epochs ? "epochs " : "snapshots ",
      first,
      last);
  return rows;
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

  std::vector<std::int64_t> epochs() const override {
    std::vector<std::int64_t> epochs;
    for (const Row& row : rows_) {
      if (row.epoch >= 0) epochs.push_back(row.epoch);
    }
    return epochs;
  }

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
  std::vector<InputFile> files_;
  std::int64_t bytes_verified_ = 0;
};

void check_same_layout(const std::vector<Row>& rows) {
  const Row& first = rows.front();
  for (const Row& row : rows) {
    if (row.layout_hash == first.layout_hash && row.columns == first.columns) continue;
    throw std::invalid_argument(
        formatted("[pca::open_source] '{}' has another layout than '{}': {}",
                  row.path.string(),
                  first.path.string(),
                  layout::first_difference(layout_from_json(first.layout_json), row.layout_json)));
  }
}

/// The files that open_source(path) reads.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& path) {
  require(std::filesystem::exists(path),
          "[pca::open_source] needs snapshots, '{}' does not exist",
          path.string());
  if (std::filesystem::is_directory(path) || checkpoints::is_snapshot_list(path)) {
    auto files = checkpoints::snapshots_at(path, {".h5", ".safetensors"});
    require(!files.empty(),
            "[pca::open_source] needs .h5 or .safetensors files, the folder '{}' has none",
            path.string());
    return files;
  }
  require(
      path.extension() == ".npy" || path.extension() == ".h5" || path.extension() == ".safetensors",
      "[pca::open_source] needs a folder, a .txt list or an .npy matrix, received '{}'",
      path.string());
  return {path};
}

/// files_of(path) as rank 0 sees it, so that a folder which grows meanwhile is the same for all.
std::vector<std::filesystem::path> agreed_files(const std::filesystem::path& path,
                                                const Ranks& ranks) {
  std::vector<std::filesystem::path> files;
  on_rank_0(ranks, [&] { files = files_of(path); });
  if (ranks.size == 1) return files;
  std::string text;  // each name ends in the one byte that none holds
  for (const std::filesystem::path& file : files) text += file.string() + '\0';
  std::istringstream names(ranks.gather(text).front());
  files.clear();
  for (std::string name; std::getline(names, name, '\0');) files.emplace_back(name);
  return files;
}

}  // namespace

std::unique_ptr<SnapshotSource> selected(const SnapshotSource& source, const SnapshotRange& range) {
  return std::make_unique<SelectedSource>(source, rows_in(source, range));
}

std::unique_ptr<SnapshotSource> open_files(const std::vector<std::filesystem::path>& files,
                                           const Ranks& ranks) {
  require(!files.empty(), "[pca::open_source] needs at least one file, received none");
  const std::filesystem::path kind = files.front().extension();
  for (const std::filesystem::path& file : files) {
    require(file.extension() == kind && (kind == ".h5" || kind == ".safetensors"),
            "[pca::open_source] needs snapshots (.h5) or safetensors files, all of one kind, "
            "received '{}' and '{}'",
            files.front().string(),
            file.string());
  }
  std::vector<Row> rows = read_rows(files, ranks);
  check_same_layout(rows);
  std::unique_ptr<SnapshotSource> source;
  agree(ranks, [&] { source = std::make_unique<FilesSource>(std::move(rows)); });
  return source;
}

std::unique_ptr<SnapshotSource> open_source(const std::filesystem::path& path, const Ranks& ranks) {
  const std::vector<std::filesystem::path> files = agreed_files(path, ranks);
  if (files.front() != path || path.extension() != ".npy") return open_files(files, ranks);
  std::unique_ptr<SnapshotSource> matrix;
  agree(ranks, [&] { matrix = npy_matrix(path, "pca::open_source"); });
  return matrix;
}

}  // namespace dimred::pca
