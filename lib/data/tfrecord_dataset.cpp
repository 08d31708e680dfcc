#include <algorithm>
#include <atomic>
#include <limits>

#include "data/decode.h"
#include "data/inflated_file.h"
#include "data/record_readers.h"
#include "data/shard_names.h"
#include "data/splits.h"
#include "data/tf_example.h"
#include "data/tfrecord.h"
#include "data/unread_files.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

/// The text of an error of ours without its "[scope] ".
std::string rule_of(const std::exception& error) {
  const std::string text = error.what();
  const auto end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

/// The bytes between length and checksum.
Bytes payload_of(Bytes record) {
  return record.subspan(tfrecord_overhead - 4, record.size() - tfrecord_overhead);
}

ImageExample example_in(Bytes message) {
  const auto example = parse_image_example(message);
  if (example.encoded.size() < smallest_image || !sniff(example.encoded))
    fail_environment(
        "[tfrecord] needs a JPEG or PNG as image/encoded, received {} bytes of something else{}",
        example.encoded.size(),
        remark_on_bytes(example.encoded));
  return example;
}

/// Whether image/format contradicts the bytes; none, and one that names neither form, does not.
bool is_misnamed(const ImageExample& example) {
  const auto format = lower_case(example.format);
  const bool png = sniff(example.encoded) == Encoding::png;
  return png ? format == "jpeg" || format == "jpg" : format == "png";
}

/// Reads the record at the beginning of `rest`, which is not empty: adds it to `scan` and returns
/// its size; 0: nothing behind it can be found.
std::size_t scan_record(Bytes rest, std::uint64_t offset, RecordIndex& scan) {
  try {
    const auto length = tfrecord_length(rest);
    if (!length || *length + tfrecord_overhead > rest.size()) {
      scan.add_problem(
          offset,
          formatted(
              "needs a whole record{}, received a file that ends {} bytes after its beginning",
              length ? formatted(" of {} bytes", *length) : "",
              rest.size()));
      return 0;
    }
    const auto size = *length + tfrecord_overhead;
    try {
      require_environment(size <= std::numeric_limits<std::uint32_t>::max(),
                          "[tfrecord] needs records of less than 4 GiB, received {} bytes",
                          size);
      first_tfrecord(rest);  // verifies it
      const auto example = example_in(payload_of(rest.first(size)));
      scan.entries.push_back(
          {.offset = offset, .size = static_cast<std::uint32_t>(size), .label = example.label});
      auto& shard = scan.shards.front();
      if (is_misnamed(example) && shard.misnamed++ == 0) shard.first_misnamed = offset;
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

RecordIndex scan_tfrecord(Bytes file) {
  RecordIndex scan{.shards = {{}}};
  if (file.empty()) scan.add_problem(0, "needs at least one record, received an empty file");
  for (std::size_t offset = 0; offset < file.size();) {
    const auto size = scan_record(file.subspan(offset), offset, scan);
    if (size == 0) break;
    offset += size;
  }
  return scan;
}

class TfRecordDataset : public RecordDataset {
 public:
  TfRecordDataset(const RecordOptions& options, std::vector<MappedFile> files)
      : RecordDataset(tfrecord_format, options, std::move(files)), verified_(size()) {}

  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    const auto& found = entry(index);
    try {
      const auto [record, seconds_fetching] = record_of(found, index, scratch);
      auto sample = sample_in(record, label_of(found));
      sample.seconds_fetching = seconds_fetching;
      return sample;
    } catch (const std::runtime_error& error) {
      const auto prefix = formatted("{}: ", origin(index));
      const auto rule = rule_of(error);
      fail_environment(
          "[tfrecord] {}{}", prefix, rule.starts_with(prefix) ? rule.substr(prefix.size()) : rule);
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
    if (verified_[index]) return {.bytes = record};
    file.fetch(record);
    verify(record);
    verified_[index] = true;
    return {.bytes = record};
  }

  static void verify(Bytes record) {
    const auto whole = first_tfrecord(record);
    require_environment(whole && whole->size == record.size(),
                        "[tfrecord] the file has changed since it was opened");
  }

  static Sample sample_in(Bytes record, std::int64_t label) {
    const auto image = parse_image_example(payload_of(record)).encoded;
    const auto encoding = sniff(image);
    require_environment(encoding.has_value(), "[tfrecord] needs a JPEG or PNG");
    return {.encoding = *encoding, .bytes = image, .label = label};
  }

  mutable std::vector<std::atomic<bool>> verified_;
};

std::vector<fs::path> tfrecord_files(const DatasetRequest& request) {
  const auto& [options, path, train, named, class_names] = request;
  if (train) return find_shards(path, train);
  if (!named && !fs::is_directory(path)) return {};
  if (shards_at(path, train).empty())
    return named ? find_shards(path, /*train=*/true) : std::vector<fs::path>();
  return find_shards(path, train);
}

/// The places that they would have here; `path` is their folder, or a pattern in it.
std::vector<fs::path> files_of(const ShardSource& source, const fs::path& path) {
  const auto folder = fs::is_directory(path) ? path : path.parent_path();
  std::vector<fs::path> files;
  for (const auto& shard : source.shards()) files.push_back(folder / shard.name);
  return files;
}

/// Looks at a few files only: a folder may hold a million images.
bool begins_with_tfrecord(const fs::path& folder) {
  if (!fs::is_directory(folder)) return false;
  int left = 16;
  for (const auto& item : fs::directory_iterator(folder)) {
    if (!item.is_regular_file()) continue;
    if (is_tfrecord(item.path())) return true;
    if (--left == 0) break;
  }
  return false;
}

bool holds_tfrecord(const fs::path& path) {
  if (fs::is_directory(path))
    return begins_with_tfrecord(path) || begins_with_tfrecord(split_folder(path, true)) ||
           begins_with_tfrecord(split_folder(path, false));
  try {
    const auto files = shards_at(path, /*train=*/true);
    return !files.empty() && is_tfrecord(files.front());
  } catch (const std::exception&) {  // a list of something else
    return false;
  }
}

std::unique_ptr<Dataset> open_split(const DatasetRequest& request) {
  auto source = request.train ? source_of(request.path) : nullptr;
  auto options =
      record_options(request, source ? files_of(*source, request.path) : tfrecord_files(request));
  if (options.files.empty()) return nullptr;
  options.source = std::move(source);
  return open_tfrecord(options);
}

}  // namespace

const RecordFormat tfrecord_format = {.name = "tfrecord", .scan = scan_tfrecord};

std::unique_ptr<Dataset> open_tfrecord(const RecordOptions& options) {
  if (options.source) return std::make_unique<TfRecordDataset>(options, std::vector<MappedFile>());
  auto paths = options.files;
  for (auto& path : paths) path = inflated(path, options.cache);
  return std::make_unique<TfRecordDataset>(options, map_files("tfrecord", paths));
}

bool is_tfrecord(const fs::path& file) {
  try {
    return tfrecord_length(first_bytes(file, 12)).has_value();
  } catch (const std::exception&) {
    return false;
  }
}

namespace formats {
DatasetFormat tfrecord() {
  return {.holds = holds_tfrecord,
          .open = open_split,
          .train_files = "TFRecord files",
          .test_files = "TFRecord files with test, val or eval in their names",
          .has_records = true};
}
}  // namespace formats

}  // namespace dimred::data
