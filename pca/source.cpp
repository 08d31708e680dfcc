#include "pca/source.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <sstream>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "checkpoints/artifact.h"
#include "checkpoints/npy.h"
#include "checkpoints/read_pickle.h"
#include "checkpoints/series.h"
#include "pca/rows.h"
#include "support/agreement.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/file_limit.h"
#include "support/file_state.h"
#include "support/text.h"

namespace dimred::pca {
namespace {

namespace fs = std::filesystem;

/// Some rows of another source, which must outlive it.
class SelectedSource final : public SnapshotSource {
 public:
  SelectedSource(const SnapshotSource& source, std::vector<std::int64_t> rows)
      : SnapshotSource(info_of(source.info(), rows)), source_(source), rows_(std::move(rows)) {}
  void require_unchanged(std::int64_t row) const override { source_.require_unchanged(rows_[row]); }
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    source_.read(rows_[row], begin, out);
  }
  void read_float64(std::int64_t row, std::int64_t begin, std::span<double> out) const override {
    source_.read_float64(rows_[row], begin, out);
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
          "[pca] needs 0 <= from <= to (or to = 0) and skip >= 0, received from = {}, to = "
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
  require(!rows.empty(),
          "[pca] the range from = {}, to = {} holds no snapshot; there are {} {} to {}",
          range.from,
          range.to,
          info.epochs.empty() ? "snapshots" : "epochs",
          first,
          last);
  return rows;
}

class FilesSource final : public SnapshotSource {
 public:
  FilesSource(SourceInfo info, std::vector<SnapshotRow> rows)
      : SnapshotSource(std::move(info)), rows_(std::move(rows)) {
    std::size_t left = most_open_files();
    for (const SnapshotRow& row : rows_) {
      const auto& files = row.info.files;
      if (files.size() > left) break;
      left -= files.size();
      open_.emplace_back(files.begin(), files.end());
    }
  }
  void require_unchanged(std::int64_t row) const override {
    rows_[row].guard.require_unchanged("pca");
  }
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    read_row(row, begin, out);
  }
  void read_float64(std::int64_t row, std::int64_t begin, std::span<double> out) const override {
    read_row(row, begin, out);
  }

 private:
  template <class Value>
  void read_row(std::int64_t row, std::int64_t begin, std::span<Value> out) const {
    const auto& [info, runs, guard, run] = rows_[row];
    if (std::cmp_less(row, open_.size())) return read_runs(open_[row], runs, begin, out);
    read_runs(std::vector<InputFile>(info.files.begin(), info.files.end()), runs, begin, out);
  }

  std::vector<SnapshotRow> rows_;
  std::vector<std::vector<InputFile>> open_;  // of the first rows; others are opened to be read
};

/// Values read at a time where they are converted on the way.
constexpr std::int64_t elements_at_a_time = 16384;

/// T: of the file's values.
template <class T>
class NpyMatrix final : public SnapshotSource {
 public:
  NpyMatrix(SourceInfo info, const checkpoints::NpyHeader& header, FileGuard guard)
      : SnapshotSource(std::move(info)),
        guard_(std::move(guard)),
        file_(this->info().files.front()),
        data_offset_(header.data_offset),
        fortran_(header.fortran_order) {}
  void require_unchanged(std::int64_t) const override { guard_.require_unchanged("pca"); }
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    read_row(row, begin, out);
  }
  void read_tile(std::int64_t begin,
                 std::int64_t width,
                 float* out,
                 std::int64_t stride) const override {
    if (!fortran_) return SnapshotSource::read_tile(begin, width, out, stride);
    read_column_tile(begin, width, out, stride);
  }
  void read_float64(std::int64_t row, std::int64_t begin, std::span<double> out) const override {
    read_row(row, begin, out);
  }
  void read_float64_tile(std::int64_t begin,
                         std::int64_t width,
                         double* out,
                         std::int64_t stride) const override {
    if (!fortran_) return SnapshotSource::read_float64_tile(begin, width, out, stride);
    read_column_tile(begin, width, out, stride);
  }

 private:
  template <class Value>
  void read_row(std::int64_t row, std::int64_t begin, std::span<Value> out) const {
    if (fortran_) {
      read_columns(begin, std::ssize(out), [&](std::int64_t column, const T* values) {
        out[column] = static_cast<Value>(values[row]);
      });
    } else {
      read_run(row * columns() + begin, out);
    }
  }

  template <class Value>
  void read_column_tile(std::int64_t begin,
                        std::int64_t width,
                        Value* out,
                        std::int64_t stride) const {
    read_columns(begin, width, [&](std::int64_t column, const T* values) {
      for (std::int64_t i = 0; i < rows(); ++i) {
        out[i * stride + column] = static_cast<Value>(values[i]);
      }
    });
  }

  /// Values [index, index + size) of the file.
  void read_values(std::int64_t index, std::span<T> out) const {
    file_.read(data_offset_ + index * sizeof(T), std::as_writable_bytes(out));
  }

  template <class Value>
  void read_run(std::int64_t index, std::span<Value> out) const {
    if constexpr (std::is_same_v<T, Value>) {
      read_values(index, out);
    } else {
      std::vector<T> part(std::min<std::size_t>(out.size(), elements_at_a_time));
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
    const auto step = std::max<std::int64_t>(1, elements_at_a_time / rows());
    std::vector<T> part(std::min(step, width) * rows());
    for (std::int64_t done = 0; done < width; done += step) {
      const auto count = std::min(step, width - done);
      read_values((begin + done) * rows(), std::span(part).first(count * rows()));
      for (std::int64_t c = 0; c < count; ++c) visit(done + c, part.data() + c * rows());
    }
  }

  FileGuard guard_;
  InputFile file_;
  std::int64_t data_offset_;
  bool fortran_;
};

/// A link to a checkpoint would count twice, and `latest` before step1.
void require_different_files(const std::vector<SnapshotRow>& rows) {
  std::vector<std::vector<fs::path>> files;
  for (const auto& row : rows) files.push_back(row.info.files);
  if (const auto same = same_files(files))
    refuse("[snapshots] needs each snapshot once, received '{}' and '{}', which are the same files",
           rows[same->first].info.names.front(),
           rows[same->second].info.names.front());
}

/// Rank 0's findings at a path, so that a growing folder is the same for all. Remarks and order are
/// rank 0's to say.
struct FoundFiles {
  std::vector<fs::path> files;
  std::vector<std::string> remarks;
  std::string unordered;
};

FoundFiles agreed_files(const fs::path& path, Communicator& communicator) {
  FoundFiles found;
  std::istringstream names(on_rank_0(communicator, [&] {
    auto series = checkpoints::members({path}, "snapshots");
    if (!series.counted && checkpoints::look(path).kind != checkpoints::ArtifactKind::list)
      checkpoints::sort_by_step(series);
    found.remarks = std::move(series.remarks);
    found.unordered = std::move(series.unordered);
    std::string text;  // each name ends in the one byte that none holds
    for (const auto& member : series.members) text += member.weights.string() + '\0';
    return text;
  }));
  for (std::string name; std::getline(names, name, '\0');) found.files.emplace_back(name);
  return found;
}

void require_one_run(const std::vector<SnapshotRow>& rows) {
  std::vector<checkpoints::MemberRun> runs;
  for (const auto& row : rows) runs.push_back({row.info.names.front(), row.run});
  checkpoints::require_one_run(runs, "snapshots");
}

/// Snapshots or weight files as rows, all of one kind.
std::unique_ptr<SnapshotSource> open_found(FoundFiles found, Communicator& communicator) {
  const auto& files = found.files;
  const auto is_ours = [](const fs::path& file) {
    return checkpoints::look(file).kind == checkpoints::ArtifactKind::snapshot;
  };
  const auto other = std::ranges::find_if(
      files, [&](const fs::path& file) { return is_ours(file) != is_ours(files.front()); });
  require(other == files.end(),
          "[snapshots] needs snapshots (.h5) or weight files, all of one kind, received '{}' and "
          "'{}'",
          files.front(),
          other == files.end() ? fs::path() : *other);
  std::vector<SnapshotRow> rows = read_rows(files, communicator);
  agree(communicator, [&] {
    require_different_files(rows);
    require_one_run(rows);
  });
  SourceInfo info = info_of(rows);
  std::ranges::copy(info.remarks, std::back_inserter(found.remarks));
  info.remarks = std::move(found.remarks);
  info.unordered = std::move(found.unordered);
  std::unique_ptr<SnapshotSource> source;
  agree(communicator,
        [&] { source = std::make_unique<FilesSource>(std::move(info), std::move(rows)); });
  return source;
}

}  // namespace

std::unique_ptr<SnapshotSource> selected(const SnapshotSource& source, const SnapshotRange& range) {
  return std::make_unique<SelectedSource>(source, rows_in(source.info(), range));
}

std::unique_ptr<SnapshotSource> open_files(const std::vector<fs::path>& files,
                                           Communicator& communicator) {
  require(!files.empty(), "[snapshots] needs at least one file, received none");
  auto series = checkpoints::members(files, "snapshots");
  FoundFiles found{.files = checkpoints::member_weights(series),
                   .remarks = std::move(series.remarks)};
  return open_found(std::move(found), communicator);
}

std::unique_ptr<SnapshotSource> open_source(const fs::path& path, Communicator& communicator) {
  auto found = agreed_files(path, communicator);
  if (found.files.front() != path || path.extension() != ".npy")
    return open_found(std::move(found), communicator);
  std::unique_ptr<SnapshotSource> matrix;
  agree(communicator, [&] { matrix = npy_matrix(path, "snapshots"); });
  return matrix;
}

std::unique_ptr<SnapshotSource> npy_matrix(const fs::path& path, std::string_view position) {
  FileGuard guard({path});
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
                  .item_bytes = static_cast<double>(header.item_bytes),
                  .float64 = header.item_bytes == 8};
  for (std::int64_t i = 0; i < info.rows; ++i) info.names.push_back(formatted("{}[{}]", path, i));
  if (header.item_bytes == 8)
    return std::make_unique<NpyMatrix<double>>(std::move(info), header, std::move(guard));
  return std::make_unique<NpyMatrix<float>>(std::move(info), header, std::move(guard));
}

void set_default_python(const std::string& program) { checkpoints::set_default_python(program); }

}  // namespace dimred::pca
