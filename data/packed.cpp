#include "data/packed.h"

#include <algorithm>
#include <limits>

#include "data/bytes.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

constexpr std::string_view packed_magic = "DIMREDPK";
constexpr std::uint32_t packed_version = 1;
constexpr std::int64_t page = 4096, alignment = 64;
constexpr std::size_t row_bytes = 40, digest_bytes = 32;

void append_row(std::string& table, const PackedSample& row) {
  append_number(table, row.offset);
  append_number(table, row.digest);
  append_number(table, row.size);
  append_number(table, row.label);
  append_number(table, row.height);
  append_number(table, row.width);
  append_number(table, row.channels);
  append_number(table, static_cast<std::uint32_t>(row.encoding));
}

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
                      "[packed] sample {} needs to lie within the file, received {} bytes at "
                      "offset {} for {} x {} x {}",
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

}  // namespace

std::int64_t PackedLayout::size() const {
  return static_cast<std::int64_t>(table.size() / row_bytes);
}

PackedSample PackedLayout::sample(std::int64_t index) const {
  ByteReader in(table.subspan(static_cast<std::size_t>(index) * row_bytes, row_bytes), "packed");
  PackedSample row;
  row.offset = in.number<std::uint64_t>();
  row.digest = in.number<std::uint64_t>();
  row.size = in.number<std::uint32_t>();
  row.label = in.number<std::uint32_t>();
  row.height = in.number<std::uint32_t>();
  row.width = in.number<std::uint32_t>();
  row.channels = in.number<std::uint32_t>();
  row.encoding = static_cast<Encoding>(in.number<std::uint32_t>());
  return row;
}

PackedLayout packed_layout(std::span<const std::uint8_t> file) {
  ByteReader header(file, "packed");
  require_environment(std::ranges::equal(header.take(packed_magic.size()), packed_magic),
                      "[packed] needs to begin with {}",
                      packed_magic);
  const auto found = header.number<std::uint32_t>();
  require_environment(
      found == packed_version, "[packed] needs version {}, received {}", packed_version, found);
  header.number<std::uint32_t>();
  const auto offset = header.number<std::uint64_t>();
  const auto size = header.number<std::uint64_t>();
  const auto expected = header.take(digest_bytes);
  require_environment(
      offset <= file.size() && size <= file.size() - offset,
      "[packed] needs its description of {} bytes at offset {}, received a file of {} bytes",
      size,
      offset,
      file.size());
  const auto description = file.subspan(offset, size);
  PackedLayout layout;
  layout.digest = digest(std::as_bytes(description));
  require_environment(std::ranges::equal(expected, layout.digest),
                      "[packed] is damaged: the digest of its description (offset {}) differs",
                      offset);
  ByteReader in(description, "packed");
  layout.source = in.text();
  layout.class_names.resize(in.count(sizeof(std::uint64_t)));
  for (auto& name : layout.class_names) name = in.text();
  const auto rows = in.count(row_bytes);
  layout.table = in.take(rows * row_bytes);
  require_environment(rows >= 1, "[packed] needs at least one sample");
  for (std::int64_t i = 0; i < layout.size(); ++i)
    require_row(layout.sample(i), i, file.size(), layout.class_names.size());
  return layout;
}

PackedWriter::PackedWriter(const std::filesystem::path& path) : file_(path) {
  append(std::string(static_cast<std::size_t>(page), '\0'));
}

void PackedWriter::append(std::string_view bytes) {
  file_.append(std::as_bytes(std::span(bytes)));
  end_ += std::ssize(bytes);
}

void PackedWriter::pad(std::int64_t alignment) {
  append(std::string(static_cast<std::size_t>((alignment - end_ % alignment) % alignment), '\0'));
}

void PackedWriter::add(const Sample& sample) {
  require(sample.bytes.size() >= 1 &&
              sample.bytes.size() <= std::numeric_limits<std::uint32_t>::max() &&
              sample.label >= 0 && sample.label <= std::numeric_limits<std::uint32_t>::max(),
          "[packed] needs samples of 1 to 2^32 - 1 bytes and labels in that range, received {} "
          "bytes of label {}",
          sample.bytes.size(),
          sample.label);
  pad(alignment);
  append_row(table_,
             {.offset = static_cast<std::uint64_t>(end_),
              .digest = digest64(std::as_bytes(sample.bytes)),
              .size = static_cast<std::uint32_t>(sample.bytes.size()),
              .label = static_cast<std::uint32_t>(sample.label),
              .height = static_cast<std::uint32_t>(sample.shape.height),
              .width = static_cast<std::uint32_t>(sample.shape.width),
              .channels = static_cast<std::uint32_t>(sample.shape.channels),
              .encoding = sample.encoding});
  append({reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size()});
  ++samples_;
}

void PackedWriter::finish(std::string_view source, const std::vector<std::string>& class_names) {
  pad(page);
  std::string description;
  append_text(description, source);
  append_number(description, std::uint64_t{class_names.size()});
  for (const auto& name : class_names) append_text(description, name);
  append_number(description, static_cast<std::uint64_t>(samples_));
  description += table_;
  std::string header(packed_magic);
  append_number(header, packed_version);
  append_number(header, std::uint32_t{0});
  append_number(header, static_cast<std::uint64_t>(end_));
  append_number(header, std::uint64_t{description.size()});
  header += digest(std::as_bytes(std::span(description)));
  append(description);
  file_.write_at(0, std::as_bytes(std::span(header)));
  file_.commit();
}

}  // namespace dimred::data
