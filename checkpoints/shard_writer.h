#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/output.h"
#include "checkpoints/shard_plan.h"
#include "support/atomic_file.h"
#include "support/bytes.h"
#include "support/digest.h"

namespace dimred::checkpoints {

/// A tensor on its way to its place in a shard: its bytes one behind the other, and their digest.
class TensorStream {
 public:
  TensorStream(AtomicFile& file, std::int64_t offset) : file_(&file), offset_(offset) {}

  void append(ByteView bytes);
  /// Appends what sums in float64 were rounded to.
  void append_rounded(std::string_view dtype, std::span<const double> sums, ByteView rounded);
  std::string digest() const { return digest_.hex(); }
  /// Returns whether sums that were not all 0 were all rounded to 0.
  bool vanished() const { return had_value_ && !has_value_; }

 private:
  AtomicFile* file_;
  std::int64_t offset_;  // of the next byte
  DigestStream digest_;
  bool had_value_ = false, has_value_ = false;  // other than 0: sums, and what they were rounded to
};

/// XXH3-128 of tensors: [file that they lie in][PlannedTensor::index].
using TensorDigests = std::vector<std::vector<std::string>>;

/// Appends a tensor to the stream of each folder, and returns a digest for each of the inputs.
using WriteTensor =
    std::function<std::vector<std::string>(const PlannedTensor&, std::span<TensorStream>)>;

/// Writes the shards of a plan into one or more folders of an output, all of them at once. A shard
/// is recorded when it is whole, with its tensors' digests, and a later process leaves it as it is.
class ShardWriter {
 public:
  /// Takes up the shards that are recorded. `folders`: within the output; an empty path is itself.
  /// `inputs`: which have digests of each tensor of the plan, too; `tensors`: those which
  /// PlannedTensor::index counts. The output and the plan outlive the writer.
  ShardWriter(const Output& output,
              const ShardPlan& plan,
              std::vector<std::filesystem::path> folders,
              std::size_t inputs,
              std::size_t tensors);

  /// The shards that are not there yet.
  const std::vector<const Shard*>& left() const { return left_; }

  /// Bytes of their files.
  std::int64_t bytes_left() const;

  /// Writes these, a tensor on each of `threads` threads; a shard becomes durable while the next
  /// one is written. `require_unchanged` is called before a shard is whole: a program that still
  /// writes the inputs would have a mixture written. Throws what both do, and std::runtime_error
  /// for I/O errors.
  void write(std::int64_t threads,
             const WriteTensor& write_tensor,
             const std::function<void()>& require_unchanged);

  /// The digests of what was read from each input, and written to each folder.
  const TensorDigests& read() const { return read_; }
  const TensorDigests& written() const { return written_; }

  /// The places of the tensors whose values were not all 0 and were all rounded to 0, in any
  /// folder.
  std::vector<std::size_t> vanished() const;

 private:
  using Files = std::vector<std::unique_ptr<AtomicFile>>;  // of each folder

  std::filesystem::path record_name(const Shard& shard) const;
  bool take_recorded(const Shard& shard);
  bool is_as_written(const Shard& shard) const;
  Files write_shard(const Shard& shard, std::int64_t threads, const WriteTensor& write_tensor);
  void finish(const Shard& shard, const Files& files) const;

  const Output& output_;
  std::vector<std::filesystem::path> folders_;
  TensorDigests read_;
  TensorDigests written_;
  TensorDigests vanished_;  // no digests: "1" of a tensor that TensorStream::vanished()
  std::vector<const Shard*> left_;
};

/// Returns the line for a person on tensors that vanished(); empty without any.
std::string vanished_remark(const std::vector<std::string>& names);

}  // namespace dimred::checkpoints
