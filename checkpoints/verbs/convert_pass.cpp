#include "checkpoints/verbs/convert_pass.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "checkpoints/float_sums.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/shard_writer.h"
#include "support/errors.h"
#include "support/parallel.h"
#include "support/printable.h"

namespace dimred::verbs {
namespace {

using checkpoints::PlannedTensor;
using checkpoints::StoredTensor;

/// The files of a pass while they are open.
struct ConvertFiles {
  checkpoints::TensorReader source;
  std::optional<checkpoints::TensorReader> adapter;
};

/// One tensor on its way from its file to the shard.
class TensorConversion {
 public:
  TensorConversion(const ConvertWork& work,
                   const ConversionOptions& options,
                   const ConvertFiles& files,
                   const PlannedTensor& planned,
                   checkpoints::TensorStream& output)
      : work_(work),
        progress_(options.progress),
        planned_(planned),
        output_(output),
        reader_(&files.source),
        origin_(&work.source.tensors[planned.index]) {
    if (work.adapter) take_fold(work.folds.tensors[planned.index], *files.adapter);
    unit_ = origin_->unit();
    count_ = origin_->bytes() / unit_;
    block_ = std::min(options.block, count_);
    stored_.resize(block_ * unit_);
  }

  void run() {
    const bool copies = updates_.empty() && planned_.dtype == origin_->dtype;
    for (std::int64_t first = 0; first < count_; first += block_) {
      require_running(
          progress_, "[convert] stopped; the same command continues after the last complete shard");
      const auto bytes = read(first, std::min(block_, count_ - first));
      if (copies)
        output_.append(bytes);
      else
        write_rounded(first, bytes);
      add_done(progress_, std::ssize(bytes));
    }
  }

 private:
  void take_fold(const checkpoints::LoraFold& fold, const checkpoints::TensorReader& adapter) {
    updates_ = read_updates(*work_.adapter, fold, adapter);
    if (!fold.instead) return;
    origin_ = &work_.adapter->checkpoint.tensors[*fold.instead];
    reader_ = &adapter;
  }

  ByteView read(std::int64_t first, std::int64_t count) {
    const auto bytes = std::span(stored_).first(count * unit_);
    reader_->read(*origin_, first, bytes);
    return {bytes.data(), bytes.size()};
  }

  void write_rounded(std::int64_t first, ByteView bytes) {
    sums_.resize(bytes.size() / unit_);
    checkpoints::add_stored(origin_->dtype, bytes, 1, true, sums_);
    for (const auto& update : updates_) add_update(update, first, sums_);
    rounded_.resize(checkpoints::bits_of(planned_.dtype) / 8 * sums_.size());
    if (checkpoints::store_rounded(planned_.dtype, sums_, 1, rounded_))
      require_not_finite_before(first, bytes);
    output_.append_rounded(planned_.dtype, sums_, {rounded_.data(), rounded_.size()});
  }

  /// Throws where a value that was finite is no longer.
  void require_not_finite_before(std::int64_t first, ByteView bytes) const {
    std::vector<double> before(sums_.size()), after(sums_.size());
    checkpoints::add_stored(origin_->dtype, bytes, 1, true, before);
    checkpoints::add_stored(planned_.dtype, {rounded_.data(), rounded_.size()}, 1, true, after);
    for (std::size_t i = 0; i < sums_.size(); ++i)
      require(std::isfinite(after[i]) || !std::isfinite(before[i]),
              "[convert] \"{}\" has {} at element {}, beyond the range of {}; leave the tensor out "
              "with --exclude or choose another --dtype",
              printable(work_.source.tensors[planned_.index].name),
              number_text(sums_[i]),
              first + static_cast<std::int64_t>(i),
              planned_.dtype);
  }

  const ConvertWork& work_;
  ByteProgress* progress_;
  const PlannedTensor& planned_;
  checkpoints::TensorStream& output_;
  const checkpoints::TensorReader* reader_;
  const StoredTensor* origin_;
  std::vector<checkpoints::LowRankUpdate> updates_;
  std::int64_t unit_ = 1;   // bytes of an element
  std::int64_t count_ = 0;  // elements; bytes, where an element has fewer bits
  std::int64_t block_ = 0;
  std::vector<std::byte> stored_, rounded_;
  std::vector<double> sums_;
};

void require_unchanged(const ConvertWork& work) {
  work.source.guard.require_unchanged("convert");
  if (!work.adapter) return;
  work.adapter->checkpoint.guard.require_unchanged("convert");
  work.adapter->guard.require_unchanged("convert");
}

std::int64_t bytes_to_read(const ConvertWork& work, const checkpoints::ShardWriter& writer) {
  std::int64_t bytes = 0;
  for (const auto* shard : writer.left())
    for (const auto& tensor : shard->tensors) bytes += work.source.tensors[tensor.index].bytes();
  return bytes;
}

}  // namespace

ConvertedBytes write_converted(const ConvertWork& work,
                               const ConversionOptions& options,
                               const checkpoints::Output& output) {
  checkpoints::ShardWriter writer(output, work.plan, {""}, 0, work.source.tensors.size());
  const auto bytes = bytes_to_read(work, writer);
  expect_bytes(options.progress, bytes);
  ConvertFiles files{checkpoints::TensorReader(work.source), {}};
  if (work.adapter) files.adapter.emplace(work.adapter->checkpoint);
  writer.write(
      options.threads == 0 ? available_threads() : options.threads,
      [&](const PlannedTensor& planned, std::span<checkpoints::TensorStream> streams) {
        TensorConversion(work, options, files, planned, streams.front()).run();
        return std::vector<std::string>();
      },
      [&] { require_unchanged(work); });
  return {writer.written().front(), writer.vanished(), bytes, writer.bytes_left()};
}

}  // namespace dimred::verbs
