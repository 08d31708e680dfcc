#include <algorithm>
#include <utility>

#include "pca/source.h"
#include "support/errors.h"

namespace dimred::pca {
namespace {

class MemorySource final : public SnapshotSource {
 public:
  MemorySource(std::vector<float> values, std::int64_t rows, std::int64_t columns)
      : values_(std::move(values)), rows_(rows), columns_(columns) {}

  std::int64_t rows() const override { return rows_; }
  std::int64_t columns() const override { return columns_; }
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    std::copy_n(values_.data() + row * columns_ + begin, out.size(), out.data());
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < rows_; ++i) names.push_back(concat("memory[", i, ']'));
    return names;
  }

 private:
  std::vector<float> values_;
  std::int64_t rows_;
  std::int64_t columns_;
};

}  // namespace

std::unique_ptr<SnapshotSource> memory_source(std::vector<float> values,
                                              std::int64_t rows,
                                              std::int64_t columns) {
  std::int64_t size = 0;
  require(rows >= 1 && columns >= 1 && !__builtin_mul_overflow(rows, columns, &size) &&
              std::cmp_equal(size, values.size()),
          "pca::memory_source",
          "needs rows x columns values, received ",
          values.size(),
          " for ",
          rows,
          " x ",
          columns);
  return std::make_unique<MemorySource>(std::move(values), rows, columns);
}

}  // namespace dimred::pca
