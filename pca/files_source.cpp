#include <span>
#include <utility>

#include "checkpoints/atomic_file.h"
#include "layout/layout.h"
#include "pca/float_file.h"
#include "pca/rows.h"
#include "pca/sidecar.h"
#include "pca/source.h"
#include "support/errors.h"

namespace dimred::pca {
namespace {

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

std::unique_ptr<SnapshotSource> open_files(const std::vector<std::filesystem::path>& files,
                                           const Ranks& ranks) {
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
  std::vector<Row> rows = read_rows(files, ranks);
  check_same_layout(rows);
  std::unique_ptr<SnapshotSource> source;
  agree(ranks, [&] { source = std::make_unique<FilesSource>(std::move(rows)); });
  return source;
}

}  // namespace dimred::pca
