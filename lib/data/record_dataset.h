#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/format.h"
#include "data/record_index.h"
#include "data/shard_source.h"
#include "data/streamed_files.h"
#include "support/mapped_file.h"

namespace dimred::data {

struct RecordOptions {
  std::vector<std::filesystem::path> files;  // in the order of the samples, >= 1
  std::vector<std::string> class_names;  // those of the training set, for a test set; empty: found
  DatasetOptions dataset = {};  // num_classes = 0: as many as labels.txt names, else the largest
                                // label + 1
  std::shared_ptr<ShardSource> source = nullptr;  // the files are fetched from it as they are
                                                  // needed; `files` says where they would lie
  std::vector<std::string> notes = {};            // on the choice of the files
};

/// The options that a request gives for these files.
RecordOptions record_options(const DatasetRequest& request,
                             std::vector<std::filesystem::path> files);

/// The common part of data sets of record files: mapped files, their index, labels and names.
/// A problem found by the pass is std::runtime_error("[format] file, offset N: rule, received ...;
/// and K more") unless they are skipped; so is a data set without any good sample. Class names come
/// from labels.txt beside the first file ("name" or "7:name" lines, in the order of the stored
/// labels; a test set's must be the training set's), else they are numbers. Files of a source give
/// the same data set as files that are here.
class RecordDataset : public Dataset {
 public:
  /// `files` hold what options.files name (decompressed, of .gz files), in that order; none with a
  /// source.
  RecordDataset(const RecordFormat& format, RecordOptions options, std::vector<MappedFile> files);

  std::vector<std::int64_t> shard_sizes() const override;
  std::string origin(std::int64_t index) const override;
  std::vector<std::string> notes() const override;  // the first skipped records and how many more;
                                                    // how many hold another format than they say
  std::string description() const override;
  void expect(const Upcoming& upcoming) const override;
  std::optional<StreamCapacity> stream_capacity() const override;

 protected:
  const RecordEntry& entry(std::int64_t index) const;  // throws std::invalid_argument
  /// The file that holds it, whole; not with a source.
  const MappedFile& file_of(const RecordEntry& entry) const { return files_[entry.shard]; }
  /// nullptr without a source.
  StreamedFiles* streamed() const { return streamed_.get(); }
  std::int64_t label_of(const RecordEntry& entry) const {
    return entry.label - options_.dataset.labels_offset;
  }

 private:
  RecordIndex find_index(const RecordFormat& format) const;
  void look_at(const std::vector<RecordShard>& shards);
  void leave_out(const RecordIndex& index);
  void keep_labels_in_range();
  void note_labels();
  void note_skipped(std::uint32_t shard, std::uint64_t offset, std::string_view text);

  std::string name_of(std::uint32_t shard) const;
  std::string origin_of(std::uint32_t shard, std::uint64_t offset) const;

  std::string_view format_;
  RecordOptions options_;
  std::vector<MappedFile> files_;
  std::unique_ptr<StreamedFiles> streamed_;
  std::vector<RecordEntry> entries_;
  std::int64_t skipped_ = 0;
  std::string remark_, misnamed_, lowest_, cut_names_, gaps_;
  std::vector<std::string> notes_;
};

/// The files of options.files, mapped. Throws as MappedFile, std::invalid_argument for none.
std::vector<MappedFile> map_files(std::string_view format,
                                  const std::vector<std::filesystem::path>& paths);

}  // namespace dimred::data
