#include "pca/npy_matrix.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "checkpoints/npy.h"
#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred::pca {
namespace {

/// Values read at a time where they are converted on the way.
constexpr std::int64_t kElementsAtATime = 16384;

template <class T>
class NpyMatrix final : public SnapshotSource {
 public:
  NpyMatrix(const std::filesystem::path& path, const checkpoints::NpyHeader& header)
      : file_(path),
        data_offset_(header.data_offset),
        rows_(header.shape[0]),
        columns_(header.shape[1]),
        fortran_(header.fortran_order) {}

  std::int64_t rows() const override { return rows_; }
  std::int64_t columns() const override { return columns_; }
  int item_bytes() const override { return sizeof(T); }
  std::vector<std::filesystem::path> files() const override { return {file_.path()}; }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < rows_; ++i) {
      names.push_back(formatted("{}[{}]", file_.path().string(), i));
    }
    return names;
  }

  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    if (fortran_) {
      read_columns(begin, std::ssize(out), [&](std::int64_t column, const T* values) {
        out[static_cast<std::size_t>(column)] = static_cast<float>(values[row]);
      });
    } else {
      read_run(row * columns_ + begin, out);
    }
  }

  void read_tile(std::int64_t begin,
                 std::int64_t width,
                 float* out,
                 std::int64_t stride) const override {
    if (!fortran_) return SnapshotSource::read_tile(begin, width, out, stride);
    read_columns(begin, width, [&](std::int64_t column, const T* values) {
      for (std::int64_t i = 0; i < rows_; ++i) {
        out[i * stride + column] = static_cast<float>(values[i]);
      }
    });
  }

 private:
  /// Values [index, index + size) of the file.
  void read_values(std::int64_t index, std::span<T> out) const {
    file_.read(data_offset_ + index * static_cast<std::int64_t>(sizeof(T)),
               std::as_writable_bytes(out));
  }

  void read_run(std::int64_t index, std::span<float> out) const {
    if constexpr (sizeof(T) == sizeof(float)) {
      read_values(index, out);
    } else {
      std::vector<T> part(std::min<std::size_t>(out.size(), kElementsAtATime));
      for (std::size_t done = 0; done < out.size(); done += part.size()) {
        const auto now = std::span(part).first(std::min(part.size(), out.size() - done));
        read_values(index + static_cast<std::int64_t>(done), now);
        std::ranges::transform(now, out.begin() + static_cast<std::ptrdiff_t>(done), [](T v) {
          return static_cast<float>(v);
        });
      }
    }
  }

  /// visit(column - begin, values [rows]) of a Fortran-ordered file, where columns lie contiguous.
  template <class Visit>
  void read_columns(std::int64_t begin, std::int64_t width, Visit visit) const {
    const std::int64_t step = std::max<std::int64_t>(1, kElementsAtATime / rows_);
    std::vector<T> part(static_cast<std::size_t>(std::min(step, width) * rows_));
    for (std::int64_t done = 0; done < width; done += step) {
      const std::int64_t count = std::min(step, width - done);
      read_values((begin + done) * rows_,
                  std::span(part).first(static_cast<std::size_t>(count * rows_)));
      for (std::int64_t c = 0; c < count; ++c) visit(done + c, part.data() + c * rows_);
    }
  }

  InputFile file_;
  std::int64_t data_offset_;
  std::int64_t rows_;
  std::int64_t columns_;
  bool fortran_;
};

}  // namespace

std::unique_ptr<SnapshotSource> npy_matrix(const std::filesystem::path& path,
                                           std::string_view scope) {
  const checkpoints::NpyHeader header = checkpoints::read_npy_header(path);
  require(header.shape.size() == 2 && header.shape[0] >= 1 && header.shape[1] >= 1,
          "[{}] needs a matrix, received {} dimensions or an empty one in '{}'",
          scope,
          header.shape.size(),
          path.string());
  if (header.item_bytes == 8) return std::make_unique<NpyMatrix<double>>(path, header);
  return std::make_unique<NpyMatrix<float>>(path, header);
}

}  // namespace dimred::pca
