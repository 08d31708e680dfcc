#include <algorithm>
#include <atomic>

#include "data/decode.h"
#include "data/inflated_file.h"
#include "data/record_readers.h"
#include "data/shard_names.h"
#include "data/splits.h"
#include "data/tf_example.h"
#include "data/tfrecord.h"
#include "data/tfrecord_format.h"
#include "support/counted.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

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
    require_environment(
        whole && whole->size == record.size(),
        "[tfrecord] the file changed after dimred opened it; start the command again");
  }

  static Sample sample_in(Bytes record, std::int64_t label) {
    const auto image = parse_image_example(payload_of(record)).encoded;
    const auto encoding = sniff(image);
    require_environment(
        encoding.has_value(),
        "[tfrecord] the record needs a JPEG or PNG image, received {} bytes of other data",
        image.size());
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

bool holds_tfrecord(const fs::path& path) {
  if (fs::is_directory(path)) return holds_a_file(path, is_tfrecord);
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
  if (!request.train && fs::is_directory(request.path))
    if (const auto others = other_test_shards(request.path); !others.empty())
      options.notes = {formatted(
          "dimred takes the shards like {}, and leaves out {} whose names have another word for a "
          "test set, such as {}; --test_data chooses shards",
          options.files.front().filename(),
          counted(std::ssize(others), "shard"),
          others.front().filename())};
  options.source = std::move(source);
  return open_tfrecord(options);
}

}  // namespace

std::unique_ptr<Dataset> open_tfrecord(const RecordOptions& options) {
  if (options.source) return std::make_unique<TfRecordDataset>(options, std::vector<MappedFile>());
  auto paths = options.files;
  for (auto& path : paths) path = inflated(path, options.dataset.cache);
  return std::make_unique<TfRecordDataset>(options, map_files("tfrecord", paths));
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
