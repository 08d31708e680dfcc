#include <array>
#include <fstream>
#include <stdexcept>

#include "data/mapped_file.h"
#include "data/marks.h"
#include "data/packed.h"
#include "data/paths.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

PackedLayout layout_of(const MappedFile& file) {
  try {
    return packed_layout(file.bytes());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(formatted("{}: {}", error.what(), path_text(file.path())));
  }
}

class PackedDataset : public Dataset {
 public:
  PackedDataset(const fs::path& path, bool digests)
      : file_(path), layout_(layout_of(file_)), digests_(digests), verified_(rows()) {
    for (std::int64_t i = 0; i < size(); ++i) {
      const auto shape = shape_of(layout_.sample(i));
      if (i == 0) shape_ = shape;
      if (shape_ != shape) shape_.reset();
      if (!shape_) break;
    }
    if (shape_ && shape_->size() == 0) shape_.reset();
  }

  std::int64_t size() const override { return layout_.size(); }
  const std::vector<std::string>& class_names() const override { return layout_.class_names; }
  std::optional<ImageShape> shape() const override { return shape_; }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    const auto row = checked(index);
    const auto bytes = file_.bytes().subspan(row.offset, row.size);
    const auto at = static_cast<std::size_t>(index);
    if (digests_ && !verified_.has(at)) {
      file_.fetch(bytes);
      if (digest64(std::as_bytes(bytes)) != row.digest)
        throw std::runtime_error(formatted(
            "[packed] {}: is damaged: the digest of sample {} differs", origin(index), index));
      verified_.set(at);
    }
    return {.encoding = row.encoding,
            .shape = shape_of(row),
            .bytes = bytes,
            .label = static_cast<std::int64_t>(row.label)};
  }

  std::string origin(std::int64_t index) const override {
    return formatted("{}, offset {}", path_text(file_.path()), checked(index).offset);
  }

  std::string description() const override {
    return formatted("packed {}, {} images of {} classes, xxh3 {}, made from {}",
                     path_text(file_.path()),
                     size(),
                     classes(),
                     layout_.digest,
                     layout_.source);
  }
  std::string digest() const override { return layout_.digest; }

 private:
  std::size_t rows() const { return static_cast<std::size_t>(layout_.size()); }

  PackedSample checked(std::int64_t index) const {
    require(
        index >= 0 && index < size(), "[packed] needs 0 <= index < {}, received {}", size(), index);
    return layout_.sample(index);
  }

  static ImageShape shape_of(const PackedSample& row) {
    return {std::int64_t{row.channels}, std::int64_t{row.height}, std::int64_t{row.width}};
  }

  MappedFile file_;
  PackedLayout layout_;
  bool digests_;
  Marks verified_;
  std::optional<ImageShape> shape_;
};

}  // namespace

std::unique_ptr<Dataset> open_packed(const fs::path& file, bool digests) {
  return std::make_unique<PackedDataset>(file, digests);
}

bool is_packed(const fs::path& file) {
  std::array<char, 8> begin{};
  std::ifstream in(file, std::ios::binary);
  return in.read(begin.data(), begin.size()) &&
         std::string_view(begin.data(), begin.size()) == "DIMREDPK";
}

}  // namespace dimred::data
