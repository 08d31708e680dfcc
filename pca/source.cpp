#include "pca/source.h"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <string_view>
#include <utility>

#include "checkpoints/npy.h"
#include "checkpoints/snapshot_list.h"
#include "pca/rows.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/list_files.h"

namespace dimred::pca {
namespace {

namespace fs = std::filesystem;

/// Some rows of another source, which must outlive it.
class SelectedSource final : public SnapshotSource {
 public:
  SelectedSource(const SnapshotSource& source, std::vector<std::int64_t> rows)
      : SnapshotSource(info_of(source.info(), rows)), source_(source), rows_(std::move(rows)) {}
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    source_.read(rows_[row], begin, out);
  }

 private:
  static SourceInfo info_of(SourceInfo info, const std::vector<std::int64_t>& rows) {
    const auto keep = [&rows](auto& values) {
      auto all = std::exchange(values, {});
      if (all.empty()) return;
      for (const std::int64_t row : rows) values.push_back(all[row]);
    };
    keep(info.names);
    keep(info.epochs);
    info.rows = std::ssize(rows);
    return info;
  }

  const SnapshotSource& source_;
  std::vector<std::int64_t> rows_;
};

/// The unit that a range counts in: the rows' epochs, or their positions counted from 1.
std::vector<std::int64_t> positions_of(const SourceInfo& info) {
  if (!info.epochs.empty()) return info.epochs;
  std::vector<std::int64_t> positions(info.rows);
  std::iota(positions.begin(), positions.end(), 1);
  return positions;
}

std::vector<std::int64_t> rows_in(const SourceInfo& info, const SnapshotRange& range) {
  require(range.from >= 0 && range.to >= 0 && range.skip >= 0 &&
              (range.to == 0 || range.from <= range.to),
          "[pca::fit] needs 0 <= from <= to (or to = 0) and skip >= 0, received from = {}, to = "
          "{}, skip = {}",
          range.from,
          range.to,
          range.skip);
  const auto positions = positions_of(info);
  std::vector<std::int64_t> rows;
  std::int64_t left_out = range.skip;  // since the last one taken
  for (std::int64_t i = 0; i < info.rows; ++i) {
    const auto position = positions[i];
    if (position < range.from || (range.to > 0 && position > range.to)) continue;
    if (left_out++ < range.skip) continue;
    rows.push_back(i);
    left_out = 0;
  }
  const auto [first, last] = std::ranges::minmax(positions);
  require(
      !rows.empty(),
      "[pca::fit] needs snapshots in the range given, received from = {}, to = {} of {}{} to {}",
      range.from,
      range.to,
      info.epochs.empty() ? "snapshots " : "epochs ",
      first,
      last);
  return rows;
}

class FilesSource final : public SnapshotSource {
 public:
  FilesSource(SourceInfo info, std::vector<Row> rows)
      : SnapshotSource(std::move(info)), rows_(std::move(rows)) {
    for (const Row& row : rows_) files_.emplace_back(row.path);
  }
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    read_runs(files_[row], rows_[row].runs, begin, out);
  }

 private:
  std::vector<Row> rows_;
  std::vector<InputFile> files_;
};

/// Values read at a time where they are converted on the way.
constexpr std::int64_t kElementsAtATime = 16384;

template <class T>
class NpyMatrix final : public SnapshotSource {
 public:
  NpyMatrix(SourceInfo info, const checkpoints::NpyHeader& header)
      : SnapshotSource(std::move(info)),
        file_(this->info().files.front()),
        data_offset_(header.data_offset),
        fortran_(header.fortran_order) {}
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    if (fortran_) {
      read_columns(begin, std::ssize(out), [&](std::int64_t column, const T* values) {
        out[column] = values[row];
      });
    } else {
      read_run(row * columns() + begin, out);
    }
  }

  void read_tile(std::int64_t begin,
                 std::int64_t width,
                 float* out,
                 std::int64_t stride) const override {
    if (!fortran_) return SnapshotSource::read_tile(begin, width, out, stride);
    read_columns(begin, width, [&](std::int64_t column, const T* values) {
      for (std::int64_t i = 0; i < rows(); ++i) {
        out[i * stride + column] = values[i];
      }
    });
  }

 private:
  /// Values [index, index + size) of the file.
  void read_values(std::int64_t index, std::span<T> out) const {
    file_.read(data_offset_ + index * sizeof(T), std::as_writable_bytes(out));
  }

  void read_run(std::int64_t index, std::span<float> out) const {
    if constexpr (sizeof(T) == sizeof(float)) {
      read_values(index, out);
    } else {
      std::vector<T> part(std::min<std::size_t>(out.size(), kElementsAtATime));
      for (std::size_t done = 0; done < out.size(); done += part.size()) {
        const auto now = std::span(part).first(std::min(part.size(), out.size() - done));
        read_values(index + done, now);
        std::ranges::copy(now, out.begin() + done);
      }
    }
  }

  /// visit(column - begin, values [rows]) of a Fortran-ordered file, where columns lie contiguous.
  template <class Visit>
  void read_columns(std::int64_t begin, std::int64_t width, Visit visit) const {
    const auto step = std::max<std::int64_t>(1, kElementsAtATime / rows());
    std::vector<T> part(std::min(step, width) * rows());
    for (std::int64_t done = 0; done < width; done += step) {
      const auto count = std::min(step, width - done);
      read_values((begin + done) * rows(), std::span(part).first(count * rows()));
      for (std::int64_t c = 0; c < count; ++c) visit(done + c, part.data() + c * rows());
    }
  }

  InputFile file_;
  std::int64_t data_offset_;
  bool fortran_;
};

/// The files that open_source(path) reads.
std::vector<fs::path> files_of(const fs::path& path) {
  require(fs::exists(path), "[pca::open_source] needs snapshots, '{}' does not exist", path);
  if (fs::is_directory(path) || checkpoints::is_snapshot_list(path)) {
    auto files = checkpoints::snapshots_at(path, {".h5", ".safetensors"});
    require(!files.empty(),
            "[pca::open_source] needs .h5 or .safetensors files, the folder '{}' has none",
            path);
    return files;
  }
  require(
      path.extension() == ".npy" || path.extension() == ".h5" || path.extension() == ".safetensors",
      "[pca::open_source] needs a folder, a .txt list or an .npy matrix, received '{}'",
      path);
  return {path};
}

/// files_of(path) as rank 0 sees it, so that a folder which grows meanwhile is the same for all.
std::vector<fs::path> agreed_files(const fs::path& path, const Ranks& ranks) {
  std::vector<fs::path> files;
  on_rank_0(ranks, [&] { files = files_of(path); });
  if (ranks.size == 1) return files;
  std::string text;  // each name ends in the one byte that none holds
  for (const auto& file : files) text += file.string() + '\0';
  std::istringstream names(ranks.gather(text).front());
  files.clear();
  for (std::string name; std::getline(names, name, '\0');) files.emplace_back(name);
  return files;
}

}  // namespace

std::unique_ptr<SnapshotSource> selected(const SnapshotSource& source, const SnapshotRange& range) {
  return std::make_unique<SelectedSource>(source, rows_in(source.info(), range));
}

std::unique_ptr<SnapshotSource> open_files(const std::vector<fs::path>& files, const Ranks& ranks) {
  require(!files.empty(), "[pca::open_source] needs at least one file, received none");
  const auto kind = files.front().extension();
  for (const auto& file : files) {
    require(file.extension() == kind && (kind == ".h5" || kind == ".safetensors"),
            "[pca::open_source] needs snapshots (.h5) or safetensors files, all of one kind, "
            "received '{}' and '{}'",
            files.front(),
            file);
  }
  std::vector<Row> rows = read_rows(files, ranks);
  SourceInfo info = info_of(rows);
  std::unique_ptr<SnapshotSource> source;
  agree(ranks, [&] { source = std::make_unique<FilesSource>(std::move(info), std::move(rows)); });
  return source;
}

std::unique_ptr<SnapshotSource> open_source(const fs::path& path, const Ranks& ranks) {
  const auto files = agreed_files(path, ranks);
  if (files.front() != path || path.extension() != ".npy") return open_files(files, ranks);
  std::unique_ptr<SnapshotSource> matrix;
  agree(ranks, [&] { matrix = npy_matrix(path, "pca::open_source"); });
  return matrix;
}

std::unique_ptr<SnapshotSource> npy_matrix(const fs::path& path, std::string_view position) {
  const auto header = checkpoints::read_npy_header(path);
  require(header.shape.size() == 2 && header.shape[0] >= 1 && header.shape[1] >= 1,
          "[{}] needs a matrix of n snapshots x M weights, received an array of {} dimensions, or "
          "an empty one, in '{}'",
          position,
          header.shape.size(),
          path);
  SourceInfo info{.rows = header.shape[0],
                  .columns = header.shape[1],
                  .files = {path},
                  .item_bytes = header.item_bytes};
  for (std::int64_t i = 0; i < info.rows; ++i) info.names.push_back(formatted("{}[{}]", path, i));
  if (header.item_bytes == 8) return std::make_unique<NpyMatrix<double>>(std::move(info), header);
  return std::make_unique<NpyMatrix<float>>(std::move(info), header);
}

}  // namespace dimred::pca
