#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/output_folder.h"

namespace dimred::data {

enum class RecordForm { tfrecord, base64 };

/// Called now and then with the samples done since the last call; from several threads, one at a
/// time.
using Progress = std::function<void(std::int64_t samples)>;

/// Which samples go where: file f gets the places [f count / files, (f + 1) count / files).
struct RecordPlan {
  RecordForm form = RecordForm::tfrecord;
  std::vector<std::string> names;                    // of the files
  std::int64_t count = 0;                            // places, >= names.size()
  std::function<std::int64_t(std::int64_t)> sample;  // index of the sample at a place; pure
  bool skip_bad = false;  // samples that cannot be read are left out and counted
  std::int64_t threads = 1;
};

/// A tool's findings in the samples that it wrote.
struct WriteReport {
  std::int64_t samples = 0;  // written
  std::int64_t bad = 0;      // left out
  std::int64_t damaged = 0;  // decoded as far as they go, which nothing tells afterwards
  std::string first_bad, first_damaged;
  std::int64_t earlier_files = 0;  // of an earlier start, counted by it
};

/// Writes the files that `folder` does not have yet, several at a time. TFRecord: tf.Example with
/// image/class/label, image/class/text, image/encoded and image/format; Base64: `base64<TAB>label`.
/// JPEG and PNG stay as they are, planes become PNG. Memory: one sample a thread and 1 MB.
/// Throws what reading a sample or writing a file throws.
WriteReport write_records(const Dataset& dataset,
                          const RecordPlan& plan,
                          const OutputFolder& folder,
                          const Progress& progress);

/// Samples that are left out, with the first of them.
struct SkippedSamples {
  std::int64_t count = 0;
  std::string first;
};

/// The indices of the samples that can be read, in ascending order, and the others' count. A plan
/// that gives all files the same number of samples has to know this first. Cost: each sample is
/// read once.
struct ReadableSamples {
  std::vector<std::int64_t> indices;
  SkippedSamples left_out;
};
ReadableSamples readable_samples(const Dataset& dataset, std::int64_t threads);

/// NAME-00000-of-00010, ..., as TensorFlow names shards.
std::vector<std::string> shard_names(const std::string& name, std::int64_t count);

/// labels.txt (7:name lines) and, of Base64, file_list.txt; the latter last: with it the data set
/// is complete. Throws std::runtime_error for a class name that a line cannot hold.
void write_lists(const Dataset& dataset, const RecordPlan& plan, const OutputFolder& folder);

/// All of [0, size) in the order of one permutation chosen by `seed`: that of conversion_plan.
std::vector<std::int64_t> shuffled_indices(std::int64_t size, std::uint64_t seed);

/// The plan of convert: all samples in their order, or in that of one permutation chosen by `seed`.
RecordPlan conversion_plan(RecordForm form,
                           std::vector<std::string> names,
                           std::int64_t size,
                           std::optional<std::uint64_t> seed);

/// The plan of shuffle-split: `ranks` files base64_rank_R of ceil(size / ranks) samples, in the
/// order of a permutation chosen by `seed`; the places that are left over repeat random samples,
/// none of them more than once more than another. Needs size >= 1 and ranks >= 1
/// (std::invalid_argument).
RecordPlan shuffle_split_plan(std::int64_t size, std::int64_t ranks, std::uint64_t seed);

}  // namespace dimred::data
