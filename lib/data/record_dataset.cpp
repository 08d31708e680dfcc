#include "data/record_dataset.h"

#include <algorithm>
#include <set>

#include "data/cache_folder.h"
#include "data/class_names.h"
#include "data/shard_index.h"
#include "data/unread_files.h"
#include "support/counted.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

// The most classes that are taken from the labels themselves: a damaged label must not become a
// table of 2^63 names.
constexpr std::int64_t most_unnamed_classes = 10'000'000;

/// The class names of labels.txt, less the first labels_offset ones.
std::vector<std::string> names_in(const fs::path& file,
                                  const RecordOptions& options,
                                  std::string_view format) {
  auto names = read_class_names(file);
  const auto cut = std::clamp<std::int64_t>(options.dataset.labels_offset, 0, std::ssize(names));
  names.erase(names.begin(), names.begin() + cut);
  require(
      options.dataset.num_classes == 0 || options.dataset.num_classes >= std::ssize(names),
      "[{}] {} lists {} classes{}; num_classes needs to be 0 or at least this number, received {}",
      format,
      file,
      names.size(),
      cut > 0 ? formatted(" after the first {}", cut) : "",
      options.dataset.num_classes);
  return names;
}

fs::path names_file(const RecordOptions& options) {
  return options.files.front().parent_path() / "labels.txt";
}

/// A remark on the names that labels_offset takes from labels.txt; empty where it takes none.
std::string remark_on_cut_names(const RecordOptions& options) {
  const auto file = names_file(options);
  const auto offset = options.dataset.labels_offset;
  if (offset <= 0 || !fs::is_regular_file(file)) return {};
  auto names = read_class_names(file);
  names.resize(std::min<std::size_t>(names.size(), static_cast<std::size_t>(offset)));
  return formatted("labels_offset = {} leaves out the first {} of {}: {}",
                   offset,
                   counted(std::ssize(names), "name"),
                   file,
                   first_names(names, 3));
}

std::vector<std::string> names_of_classes(const RecordOptions& options,
                                          std::string_view format,
                                          const std::vector<RecordEntry>& entries) {
  const auto file = names_file(options);
  if (fs::is_regular_file(file)) {
    auto names = names_in(file, options, format);
    if (!options.class_names.empty()) require_same_names(names, options.class_names, file);
    return names;
  }
  if (!options.class_names.empty()) return options.class_names;
  if (options.dataset.num_classes > 0) return numbered_classes(options.dataset.num_classes);
  std::int64_t largest = 0;
  for (const auto& entry : entries)  // between the two no difference overflows
    if (entry.label >= options.dataset.labels_offset && entry.label <= most_unnamed_classes)
      largest = std::max(largest, entry.label - options.dataset.labels_offset);
  return numbered_classes(std::min(largest + 1, most_unnamed_classes));
}

}  // namespace

std::vector<MappedFile> map_files(std::string_view format, const std::vector<fs::path>& paths) {
  require(!paths.empty(), "[{}] needs at least one file", format);
  std::vector<MappedFile> files;
  files.reserve(paths.size());
  for (const auto& path : paths) files.emplace_back(path);
  return files;
}

RecordOptions record_options(const DatasetRequest& request, std::vector<fs::path> files) {
  return {
      .files = std::move(files), .class_names = request.class_names, .dataset = request.options};
}

RecordDataset::RecordDataset(const RecordFormat& format,
                             RecordOptions options,
                             std::vector<MappedFile> files)
    : format_(format.name), options_(std::move(options)), files_(std::move(files)) {
  check(options_.source ? files_.empty() : files_.size() == options_.files.size(),
        "as many files as names");
  check(!options_.files.empty(), "a data set of no files");
  const auto& dataset = options_.dataset;
  require(dataset.num_classes >= 0 && dataset.num_classes <= most_unnamed_classes &&
              dataset.labels_offset >= -most_unnamed_classes &&
              dataset.labels_offset <= most_unnamed_classes,
          "[{}] needs num_classes and labels_offset of at most {}, received {} and {}",
          format_,
          most_unnamed_classes,
          dataset.num_classes,
          dataset.labels_offset);
  auto index = find_index(format);
  if (options_.source) streamed_ = std::make_unique<StreamedFiles>(options_.source, index.shards);
  leave_out(index);
  look_at(index.shards);
  entries_ = std::move(index.entries);
  facts_.class_names = names_of_classes(options_, format_, entries_);
  cut_names_ = remark_on_cut_names(options_);
  keep_labels_in_range();
  note_labels();
  require_environment(
      !entries_.empty(),
      "[{}] {}: needs at least one good record, received {} in {}; the first error is: {}",
      format_,
      name_of(0),
      counted(skipped_, "bad one"),
      counted(std::ssize(options_.files), "file"),
      notes_.empty() ? "" : notes_.front());
  facts_.size = std::ssize(entries_);
}

RecordIndex RecordDataset::find_index(const RecordFormat& format) const {
  const auto folder = options_.files.front().parent_path();
  if (!options_.source)
    return load_or_build_index(format, files_, cache_folder(folder, options_.dataset.cache));
  auto& source = *options_.source;
  return load_or_build_index(
      format, source, folder / shards_index_name, index_cache(source, options_.dataset.cache));
}

void RecordDataset::expect(const Upcoming& upcoming) const {
  if (streamed_)
    streamed_->expect(upcoming,
                      [this](std::int64_t index) -> std::size_t { return entry(index).shard; });
}

std::optional<StreamCapacity> RecordDataset::stream_capacity() const {
  if (!streamed_) return std::nullopt;
  return streamed_->room();
}

/// The pass's findings about the files.
void RecordDataset::look_at(const std::vector<RecordShard>& shards) {
  std::string digests, first;
  std::set<std::string> remarks;
  std::int64_t misnamed = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto& shard = shards[i];
    digests += shard.digest;
    if (!shard.remark.empty()) remarks.insert(shard.remark);
    if (misnamed == 0 && shard.misnamed > 0) first = origin_of(i, shard.first_misnamed);
    misnamed += shard.misnamed;
  }
  facts_.digest = digest_of(digests);
  for (const auto& remark : remarks) remark_ += (remark_.empty() ? ", " : " and ") + remark;
  if (misnamed > 0)
    misnamed_ = formatted(
        "{} records have another format than their image/format says; dimred uses the format of "
        "the content; the first such record is {}",
        misnamed,
        first);
}

void RecordDataset::leave_out(const RecordIndex& index) {
  skipped_ = index.problem_count;
  if (skipped_ > 0 && !options_.dataset.skip_bad) {
    auto first = index.problems.front();
    if (first.offset == 0 && !options_.source) first.text += remark_on(options_.files[first.shard]);
    throw std::runtime_error(problem_text(format_, name_of(first.shard), first, skipped_));
  }
  for (const auto& problem : index.problems)
    note_skipped(problem.shard, problem.offset, problem.text);
}

void RecordDataset::keep_labels_in_range() {
  // Compared as stored: a difference could overflow.
  const auto low = options_.dataset.labels_offset, high = low + classes();
  const auto is_bad = [&](const RecordEntry& entry) {
    return entry.label < low || entry.label >= high;
  };
  const auto bad = std::ranges::find_if(entries_, is_bad);
  if (bad == entries_.end()) return;
  require_environment(
      options_.dataset.skip_bad,
      "[{}] {}: needs a label in [{}, {}), received {}{}{}",
      format_,
      origin_of(bad->shard, bad->offset),
      low,
      high,
      bad->label,
      low == 0 && bad->label == high ? " (labels that begin at 1 need --labels_offset 1)" : "",
      cut_names_.empty() ? "" : formatted("; {}", cut_names_));
  for (const auto& entry : entries_)
    if (is_bad(entry))
      note_skipped(entry.shard, entry.offset, formatted("label {} is out of range", entry.label));
  skipped_ += std::erase_if(entries_, is_bad);
}

/// Labels that no record has; a test set may lack some but the lowest.
void RecordDataset::note_labels() {
  if (entries_.empty()) return;
  const auto low = options_.dataset.labels_offset;
  std::vector<std::int64_t> labels;
  labels.reserve(entries_.size());
  for (const auto& entry : entries_) labels.push_back(label_of(entry));
  const auto lowest = std::ranges::min(labels);
  if (lowest > 0)
    lowest_ = formatted(
        "no record has the label {}; the lowest label is {}; with --labels_offset {} this label "
        "becomes class 0{}",
        low,
        low + lowest,
        low + lowest,
        fs::is_regular_file(names_file(options_))
            ? formatted(", and labels.txt loses its first {}", counted(low + lowest, "name"))
            : "");
  if (options_.class_names.empty()) gaps_ = remark_on_gaps(labels, "record");
}

void RecordDataset::note_skipped(std::uint32_t shard, std::uint64_t offset, std::string_view text) {
  constexpr std::size_t most = 10;
  if (notes_.size() < most)
    notes_.push_back(formatted("skipped {}: {}", origin_of(shard, offset), text));
}

std::vector<std::string> RecordDataset::notes() const {
  auto notes = notes_;
  const auto more = skipped_ - std::ssize(notes);
  if (more > 0) notes.push_back(formatted("skipped {} more", more));
  if (!misnamed_.empty()) notes.push_back(misnamed_);
  for (const auto& note : {lowest_, gaps_, cut_names_})
    if (!note.empty()) notes.push_back(note);
  notes.insert(notes.end(), options_.notes.begin(), options_.notes.end());
  return notes;
}

const RecordEntry& RecordDataset::entry(std::int64_t index) const {
  return entries_[checked(index, format_)];
}

std::vector<std::int64_t> RecordDataset::shard_sizes() const {
  std::vector<std::int64_t> sizes(options_.files.size(), 0);
  for (const auto& entry : entries_) ++sizes[entry.shard];
  return sizes;
}

std::string RecordDataset::origin(std::int64_t index) const {
  const auto& found = entry(index);
  return origin_of(found.shard, found.offset);
}

std::string RecordDataset::name_of(std::uint32_t shard) const {
  return options_.source ? options_.source->shards()[shard].url : path_text(options_.files[shard]);
}

std::string RecordDataset::origin_of(std::uint32_t shard, std::uint64_t offset) const {
  return formatted("{}, offset {}", name_of(shard), offset);
}

std::string RecordDataset::description() const {
  const auto more = options_.files.size() - 1;
  return formatted("{} {}{}{}, {} of {}{}{}, xxh3 {}",
                   format_,
                   name_of(0),
                   more > 0 ? formatted(" and {}", counted(more, "more file")) : "",
                   remark_,
                   counted(size(), "image"),
                   counted(classes(), "class", "classes"),
                   options_.dataset.labels_offset != 0
                       ? formatted(", stored labels less {}", options_.dataset.labels_offset)
                       : "",
                   skipped_ > 0 ? formatted(", {} skipped", counted(skipped_, "bad record")) : "",
                   facts_.digest);
}

}  // namespace dimred::data
