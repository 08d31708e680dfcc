#include "pca/source.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>

#include "checkpoints/artifact.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/npy.h"
#include "checkpoints/read_pickle.h"
#include "checkpoints/series.h"
#include "checkpoints/steps.h"
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

using checkpoints::ArtifactKind;

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
          "[pca] needs 0 <= from <= to (to = 0: the last) and skip >= 0, received from = {}, to = "
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
          "[pca] the range (from = {}, to = {}) holds no snapshot; choose within {} {} to {}",
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
    for (SnapshotRow& row : rows_) {
      const auto& files = row.info.files;
      if (files.size() > left) break;
      left -= files.size();
      if (row.open.empty()) row.open = opened(files);
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
  static std::vector<InputFile> opened(const std::vector<fs::path>& files) {
    return std::vector<InputFile>(files.begin(), files.end());
  }

  template <class Value>
  void read_row(std::int64_t index, std::int64_t begin, std::span<Value> out) const {
    const auto& row = rows_[index];
    if (!row.open.empty()) return read_runs(row.open, row.runs, begin, out);
    read_runs(opened(row.info.files), row.runs, begin, out);
  }

  std::vector<SnapshotRow> rows_;  // the first ones stay open; others are opened to be read
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
    refuse("[snapshots] needs each snapshot once, but '{}' and '{}' are the same files",
           rows[same->first].info.names.front(),
           rows[same->second].info.names.front());
}

/// The files and their kinds that rank 0 finds at a path, so that a growing folder is the same for
/// all. Remarks and order are rank 0's to say.
checkpoints::Series agreed_files(const fs::path& path, Communicator& communicator) {
  constexpr char first_kind = 'a';
  checkpoints::Series found;
  std::istringstream files(on_rank_0(communicator, [&] {
    found = checkpoints::members({path}, "snapshots", true);
    checkpoints::put_in_order(found, checkpoints::look(path).kind == ArtifactKind::list);
    std::string text;  // each name ends in the one byte that none holds
    for (const auto& [name, weights, step, kind] : found.members)
      text += static_cast<char>(first_kind + static_cast<int>(kind)) + weights.string() + '\0';
    return text;
  }));
  if (communicator.rank() == 0) return found;
  for (std::string file; std::getline(files, file, '\0');)
    found.members.push_back(
        {.path = {}, .weights = file.substr(1), .kind = ArtifactKind(file.front() - first_kind)});
  return found;
}

std::vector<checkpoints::MemberFacts> facts_of(const std::vector<SnapshotRow>& rows) {
  std::vector<checkpoints::MemberFacts> facts;
  for (const auto& row : rows) facts.push_back(row.facts);
  return facts;
}

/// Says where snapshots hold other steps than their names say; the series has no order then, unless
/// it is a list's.
void settle_held_steps(const std::vector<checkpoints::MemberFacts>& facts,
                       checkpoints::Series& found) {
  std::vector<std::size_t> places(facts.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  const auto step_of = [&](std::size_t place) { return found.members[place].step; };
  if (!found.counted) std::ranges::stable_sort(places, {}, step_of);  // a list may have another
  std::vector<checkpoints::MemberFacts> in_order;
  for (const auto place : places) in_order.push_back(facts[place]);
  const auto difference = checkpoints::step_difference(in_order);
  if (difference.empty()) return;
  found.remarks.push_back(difference);
  if (!found.listed && found.unordered.empty()) found.unordered = difference;
}

/// Snapshots or weight files as rows, all of one kind.
std::unique_ptr<SnapshotSource> open_found(checkpoints::Series found,
                                           Communicator& communicator,
                                           Runs runs) {
  const auto& files = found.members;
  const auto is_ours = [](const checkpoints::Member& file) {
    return file.kind == ArtifactKind::snapshot;
  };
  const auto other = std::ranges::find_if(
      files, [&](const auto& file) { return is_ours(file) != is_ours(files.front()); });
  require(other == files.end(),
          "[snapshots] needs only snapshots (.h5) or only weight files, received '{}' and '{}'",
          files.front().weights,
          other == files.end() ? fs::path() : other->weights);
  std::vector<SnapshotRow> rows = read_rows(found, communicator);
  const auto facts = facts_of(rows);
  agree(communicator, [&] {
    require_different_files(rows);
    if (runs == Runs::one) checkpoints::require_one_run(facts, "snapshots");
    checkpoints::require_one_averaging(facts, "snapshots");
    require_same_codes(rows);
  });
  if (communicator.rank() == 0) settle_held_steps(facts, found);
  if (auto remark = checkpoints::runs_remark(facts); !remark.empty())
    found.remarks.push_back(std::move(remark));
  SourceInfo info = info_of(rows);
  std::ranges::copy(info.remarks, std::back_inserter(found.remarks));
  info.remarks = std::move(found.remarks);
  info.unordered = std::move(found.unordered);
  if (info.epochs.empty())
    info.epochs = checkpoints::epochs_named(checkpoints::member_weights(found));
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
                                           Communicator& communicator,
                                           Runs runs) {
  require(!files.empty(), "[snapshots] needs at least one file, received none");
  auto found = checkpoints::members(files, "snapshots", true);
  checkpoints::put_in_order(found, /*is_list=*/true);
  found.unordered.clear();
  return open_found(std::move(found), communicator, runs);
}

std::unique_ptr<SnapshotSource> open_source(const fs::path& path,
                                            Communicator& communicator,
                                            Runs runs) {
  auto found = agreed_files(path, communicator);
  if (found.members.front().weights != path || path.extension() != ".npy")
    return open_found(std::move(found), communicator, runs);
  std::unique_ptr<SnapshotSource> matrix;
  agree(communicator, [&] { matrix = npy_matrix(path, "snapshots"); });
  return matrix;
}

std::unique_ptr<SnapshotSource> npy_matrix(const fs::path& path, std::string_view position) {
  FileGuard guard({path});
  const auto header = checkpoints::read_npy_header(path);
  require(header.shape.size() == 2 && header.shape[0] >= 1 && header.shape[1] >= 1,
          "[{}] '{}' needs a matrix of n snapshots x M weights with n and M above 0, received an "
          "array of shape {}",
          position,
          path,
          checkpoints::npy_shape_text(header.shape));
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
