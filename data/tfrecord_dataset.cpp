#include <limits>

#include "data/decode.h"
#include "data/inflated_file.h"
#include "data/marks.h"
#include "data/record_readers.h"
#include "data/tf_example.h"
#include "data/tfrecord.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

std::span<const std::uint8_t> as_numbers(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

/// The text of an error of ours without its "[place] ".
std::string rule_of(const std::exception& error) {
  const std::string text = error.what();
  const auto end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

ImageExample example_in(std::span<const std::uint8_t> message) {
  const auto example = parse_image_example(message);
  require_environment(
      example.encoded.size() >= smallest_image && sniff(example.encoded),
      "[tfrecord] needs a JPEG or PNG as image/encoded, received {} bytes of something else",
      example.encoded.size());
  return example;
}

/// Whether image/format contradicts the bytes; none, and one that names neither form, does not.
bool is_misnamed(const ImageExample& example) {
  std::string format(example.format);
  for (auto& letter : format)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  const bool png = sniff(example.encoded) == Encoding::png;
  return png ? format == "jpeg" || format == "jpg" : format == "png";
}

/// What stands at the beginning of `rest`, which is not empty: adds it to `scan` and returns its
/// size; 0: nothing behind it can be found.
std::size_t scan_record(std::span<const std::byte> rest, std::uint64_t offset, ShardScan& scan) {
  try {
    const auto length = tfrecord_length(rest);
    if (!length || *length + tfrecord_overhead > rest.size()) {
      scan.add_problem(
          offset,
          formatted(
              "needs a whole record{}, received a file that ends {} bytes after its beginning",
              length ? formatted(" of {} bytes", *length) : std::string(),
              rest.size()));
      return 0;
    }
    const auto size = *length + tfrecord_overhead;
    try {
      require_environment(size <= std::numeric_limits<std::uint32_t>::max(),
                          "[tfrecord] needs records of less than 4 GiB, received {} bytes",
                          size);
      const auto record = first_tfrecord(rest);
      const auto example = example_in(as_numbers(record->payload));
      scan.entries.push_back(
          {.offset = offset, .size = static_cast<std::uint32_t>(size), .label = example.label});
      if (is_misnamed(example) && scan.misnamed++ == 0) scan.first_misnamed = offset;
    } catch (const std::runtime_error& error) {
      scan.add_problem(offset, rule_of(error));
    }
    return size;
  } catch (const std::runtime_error& error) {
    scan.add_problem(offset,
                     formatted("{}; no record behind it can be found ({} bytes are lost)",
                               rule_of(error),
                               rest.size()));
    return 0;
  }
}

ShardScan scan_tfrecord(std::span<const std::uint8_t> file) {
  ShardScan scan;
  if (file.empty()) scan.add_problem(0, "needs at least one record, received an empty file");
  const auto bytes = std::as_bytes(file);
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto size = scan_record(bytes.subspan(offset), offset, scan);
    if (size == 0) break;
    offset += size;
  }
  return scan;
}

class TfRecordDataset : public RecordDataset {
 public:
  TfRecordDataset(const RecordOptions& options, std::vector<MappedFile> files)
      : RecordDataset(tfrecord_format, options, std::move(files)),
        verified_(static_cast<std::size_t>(size())) {}

  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    const auto& found = entry(index);
    try {
      const auto [record, seconds_fetching] = record_of(found, index, scratch);
      auto sample = sample_in(record, label_of(found));
      sample.seconds_fetching = seconds_fetching;
      return sample;
    } catch (const std::runtime_error& error) {
      const auto place = formatted("{}: ", origin(index));
      const auto rule = rule_of(error);
      throw std::runtime_error(formatted(
          "[tfrecord] {}{}", place, rule.starts_with(place) ? rule.substr(place.size()) : rule));
    }
  }

 private:
  /// Verified whenever it is copied out of a file that came from elsewhere, which may be another
  /// copy than before; else the first time.
  StreamedFiles::Part record_of(const RecordEntry& found,
                                std::int64_t index,
                                std::vector<std::uint8_t>& scratch) const {
    if (auto* const streamed = this->streamed())
      return streamed->read(found.shard, found.offset, found.size, scratch, verify);
    const auto& file = file_of(found);
    const auto record = file.bytes().subspan(found.offset, found.size);
    const auto at = static_cast<std::size_t>(index);
    if (verified_.has(at)) return {.bytes = record};
    file.fetch(record);
    verify(std::as_bytes(record));
    verified_.set(at);
    return {.bytes = record};
  }

  static void verify(std::span<const std::byte> record) {
    const auto whole = first_tfrecord(record);
    require_environment(whole && whole->size == record.size(),
                        "[tfrecord] the file has changed since it was opened");
  }

  static Sample sample_in(std::span<const std::uint8_t> record, std::int64_t label) {
    const auto payload = record.subspan(tfrecord_overhead - 4, record.size() - tfrecord_overhead);
    const auto image = parse_image_example(payload).encoded;
    const auto encoding = sniff(image);
    require_environment(encoding.has_value(), "[tfrecord] needs a JPEG or PNG");
    return {.encoding = *encoding, .bytes = image, .label = label};
  }

  Marks verified_;
};

}  // namespace

const RecordFormat tfrecord_format = {.name = "tfrecord", .scan = scan_tfrecord};

std::unique_ptr<Dataset> open_tfrecord(const RecordOptions& options) {
  if (options.source) return std::make_unique<TfRecordDataset>(options, std::vector<MappedFile>());
  auto paths = options.files;
  for (auto& path : paths) path = inflated(path, options.cache);
  return std::make_unique<TfRecordDataset>(options, map_files("tfrecord", paths));
}

bool is_tfrecord(const fs::path& file) {
  std::vector<std::uint8_t> begin;
  try {
    begin = first_bytes(file, 12);
    const auto bytes = std::as_bytes(std::span(begin));
    return tfrecord_length(bytes).has_value();
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace dimred::data
