#include "data/packed.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <limits>

#include "data/format.h"
#include "data/record_index.h"
#include "data/splits.h"
#include "support/binary.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/mapped_file.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view packed_magic = "DIMREDPK";
constexpr std::uint32_t packed_version = 1;
constexpr std::int64_t page = 4096, alignment = 64;
constexpr std::size_t row_bytes = 40, digest_bytes = 32;

/// One row of the table.
struct PackedSample {
  std::uint64_t offset = 0;
  std::uint64_t digest = 0;  // XXH3-64 of its bytes
  std::uint32_t size = 0;
  std::uint32_t label = 0;
  std::uint32_t height = 0, width = 0;  // of planes, else 0
  std::uint32_t channels = 0;
  Encoding encoding = Encoding::planes;
};
static_assert(sizeof(PackedSample) == row_bytes);

/// Place and contents of a packed file's description; views of the file.
struct PackedLayout {
  std::string source;
  std::vector<std::string> class_names;
  Bytes table;
  std::string digest;  // of the description, and so of all samples' digests

  std::int64_t size() const { return table.size() / row_bytes; }
  /// 0 <= index < size().
  PackedSample sample(std::int64_t index) const {
    return ByteReader(table.subspan(index * row_bytes), "packed").number<PackedSample>();
  }
};

void require_row(const PackedSample& row,
                 std::int64_t index,
                 std::uint64_t file_size,
                 std::size_t classes) {
  const auto shape_size = std::uint64_t{row.height} * row.width;  // < 2^64
  const bool shaped = row.encoding != Encoding::planes ||
                      (row.channels >= 1 && row.channels <= 4 && shape_size > 0 &&
                       shape_size <= row.size && shape_size * row.channels == row.size);
  require_environment(static_cast<std::uint32_t>(row.encoding) <= 2 && row.size > 0 && shaped &&
                          row.offset <= file_size && row.size <= file_size - row.offset,
                      "[packed] sample {} needs bytes that lie in the file and fit the image, "
                      "received {} bytes at offset {} for an image of {} x {} x {}",
                      index,
                      row.size,
                      row.offset,
                      row.channels,
                      row.height,
                      row.width);
  require_environment(row.label < classes,
                      "[packed] sample {} needs a label below {}, received {}",
                      index,
                      classes,
                      row.label);
}

/// Reads and checks a packed file's description: digest, that every sample lies within the file and
/// has the size of its shape, labels below the number of names. Throws std::runtime_error("[packed]
/// ..."). Cost: one pass over 40 bytes a sample; no sample is touched.
PackedLayout packed_layout(Bytes file) {
  ByteReader header(file, "packed");
  require_environment(text_of(header.take(packed_magic.size())) == packed_magic,
                      "[packed] needs a file that dimred data pack wrote, with {} at its beginning",
                      packed_magic);
  const auto found = header.number<std::uint32_t>();
  require_environment(found == packed_version,
                      "[packed] needs version {} of the format, received {}",
                      packed_version,
                      found);
  header.number<std::uint32_t>();
  const auto offset = header.number<std::uint64_t>();
  const auto size = header.number<std::uint64_t>();
  const auto expected = header.take(digest_bytes);
  require_environment(
      offset <= file.size() && size <= file.size() - offset,
      "[packed] the description has {} bytes at offset {}, but the file has only {} bytes",
      size,
      offset,
      file.size());
  const auto description = file.subspan(offset, size);
  PackedLayout layout;
  layout.digest = digest_of(description);
  require_environment(
      text_of(expected) == layout.digest,
      "[packed] the file is damaged: the description at offset {} does not match its digest",
      offset);
  ByteReader in(description, "packed");
  in.read(layout.source);
  layout.class_names.resize(in.count(sizeof(std::uint64_t)));
  for (auto& name : layout.class_names) in.read(name);
  const auto rows = in.count(row_bytes);
  layout.table = in.take(rows * row_bytes);
  require_environment(rows >= 1, "[packed] needs at least one sample, received none");
  for (std::int64_t i = 0; i < layout.size(); ++i)
    require_row(layout.sample(i), i, file.size(), layout.class_names.size());
  return layout;
}

PackedLayout layout_of(const MappedFile& file) {
  try {
    return packed_layout(file.bytes());
  } catch (const std::runtime_error& error) {
    fail_environment("[packed] {}: {}", file.path(), rule_of(error));
  }
}

class PackedDataset : public Dataset {
 public:
  PackedDataset(const fs::path& path, bool digests)
      : file_(path), layout_(layout_of(file_)), digests_(digests), verified_(layout_.size()) {
    facts_ = {.size = layout_.size(),
              .class_names = std::move(layout_.class_names),
              .digest = layout_.digest};
    const auto first = shape_of(layout_.sample(0));
    bool same = first.size() > 0;
    for (std::int64_t i = 1; i < size() && same; ++i) same = shape_of(layout_.sample(i)) == first;
    if (same) facts_.shape = first;
  }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    const auto at = checked(index, "packed");
    const auto row = layout_.sample(at);
    const auto bytes = file_.bytes().subspan(row.offset, row.size);
    if (digests_ && !verified_[at]) {
      file_.fetch(bytes);
      if (digest64(bytes) != row.digest)
        fail_environment("[packed] {}: sample {} is damaged: its bytes do not match its digest",
                         origin(index),
                         index);
      verified_[at] = true;
    }
    return {.encoding = row.encoding, .shape = shape_of(row), .bytes = bytes, .label = row.label};
  }

  std::string origin(std::int64_t index) const override {
    return formatted(
        "{}, offset {}", file_.path(), layout_.sample(checked(index, "packed")).offset);
  }

  std::string description() const override {
    return formatted("packed {}, {} images of {} classes, xxh3 {}, made from {}",
                     file_.path(),
                     size(),
                     classes(),
                     layout_.digest,
                     layout_.source);
  }

 private:
  static ImageShape shape_of(const PackedSample& row) {
    return {row.channels, row.height, row.width};
  }

  MappedFile file_;
  PackedLayout layout_;
  bool digests_;
  mutable std::vector<std::atomic<bool>> verified_;
};

fs::path packed_file(const DatasetRequest& request) {
  if (fs::is_regular_file(request.path) && request.takes_all()) return request.path;
  return split_file(request.path, request.train, ".packed");
}

bool holds_packed(const fs::path& path) {
  if (!fs::is_directory(path)) return fs::is_regular_file(path) && is_packed(path);
  return std::ranges::any_of(fs::directory_iterator(path), [](const auto& item) {
    return item.path().extension() == ".packed" && is_packed(item.path());
  });
}

}  // namespace

PackedWriter::PackedWriter(const std::filesystem::path& path) : file_(path) {
  write(std::string(page, '\0'));
}

void PackedWriter::write(std::string_view bytes) {
  file_.append(bytes);
  end_ += std::ssize(bytes);
}

void PackedWriter::pad(std::int64_t alignment) {
  write(std::string((alignment - end_ % alignment) % alignment, '\0'));
}

void PackedWriter::add(const Sample& sample) {
  require(!sample.bytes.empty() &&
              sample.bytes.size() <= std::numeric_limits<std::uint32_t>::max() &&
              sample.label >= 0 && sample.label <= std::numeric_limits<std::uint32_t>::max(),
          "[packed] needs samples of 1 to 2^32 - 1 bytes and labels of 0 to 2^32 - 1, received {} "
          "bytes with label {}",
          sample.bytes.size(),
          sample.label);
  pad(alignment);
  append(table_,
         PackedSample{.offset = static_cast<std::uint64_t>(end_),
                      .digest = digest64(sample.bytes),
                      .size = static_cast<std::uint32_t>(sample.bytes.size()),
                      .label = static_cast<std::uint32_t>(sample.label),
                      .height = static_cast<std::uint32_t>(sample.shape.height),
                      .width = static_cast<std::uint32_t>(sample.shape.width),
                      .channels = static_cast<std::uint32_t>(sample.shape.channels),
                      .encoding = sample.encoding});
  write(text_of(sample.bytes));
  ++samples_;
}

void PackedWriter::finish(const std::string& source, const std::vector<std::string>& class_names) {
  pad(page);
  std::string description;
  append(description, source);
  append(description, class_names.size());
  for (const auto& name : class_names) append(description, name);
  append(description, samples_);
  description += table_;
  std::string header(packed_magic);
  append(header, packed_version);
  append(header, std::uint32_t{0});
  append(header, end_);
  append(header, description.size());
  header += digest_of(description);
  write(description);
  file_.write_at(0, header);
  file_.commit();
}

std::unique_ptr<Dataset> open_packed(const fs::path& file, bool digests) {
  return std::make_unique<PackedDataset>(file, digests);
}

bool is_packed(const fs::path& file) {
  std::array<char, packed_magic.size()> begin{};
  std::ifstream in(file, std::ios::binary);
  return in.read(begin.data(), begin.size()) && std::ranges::equal(begin, packed_magic);
}

namespace formats {
DatasetFormat packed() {
  return {.holds = holds_packed,
          .open = [](const DatasetRequest& request) -> std::unique_ptr<Dataset> {
            const auto file = packed_file(request);
            return file.empty() ? nullptr : open_packed(file);
          },
          .train_files = "train.packed",
          .test_files = "test.packed, val.packed or validation.packed"};
}
}  // namespace formats

}  // namespace dimred::data
