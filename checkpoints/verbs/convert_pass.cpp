#include "checkpoints/verbs/convert_pass.h"

#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "checkpoints/float_sums.h"
#include "checkpoints/safetensors.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/option_values.h"
#include "support/parallel.h"

namespace dimred::verbs {
namespace {

namespace fs = std::filesystem;
using checkpoints::PlannedTensor;
using checkpoints::Shard;
using checkpoints::StoredTensor;

/// The bytes that are read, for those who wait.
class ReadCount {
 public:
  ReadCount(std::int64_t total, const ConvertProgress& say) : total_(total), say_(say) {}

  void add(std::int64_t bytes) {
    if (!say_) return;
    const std::scoped_lock one(mutex_);
    done_ += bytes;
    say_(done_, total_);
  }

 private:
  std::int64_t total_;
  const ConvertProgress& say_;
  std::mutex mutex_;
  std::int64_t done_ = 0;
};

/// The files of a pass while they are open.
struct ConvertFiles {
  checkpoints::TensorReader source;
  std::optional<checkpoints::TensorReader> adapter;
};

/// One tensor on its way from its file to the shard.
class TensorConversion {
 public:
  TensorConversion(const ConvertPass& pass,
                   const ConvertFiles& files,
                   ReadCount& read,
                   const PlannedTensor& planned,
                   AtomicFile& output)
      : pass_(pass),
        read_(read),
        planned_(planned),
        output_(output),
        reader_(&files.source),
        origin_(&pass.source->tensors[planned.index]) {
    if (pass.adapter != nullptr) take_fold(pass.folds->tensors[planned.index], *files.adapter);
    unit_ = std::max<std::int64_t>(1, checkpoints::bits_of(origin_->dtype) / 8);
    count_ = origin_->bytes() / unit_;
    block_ = std::min(pass.block, count_);
    stored_.resize(block_ * unit_);
  }

  /// Returns the digest of what is written.
  std::string run() {
    const bool copies = updates_.empty() && planned_.dtype == origin_->dtype;
    for (std::int64_t first = 0; first < count_; first += block_) {
      if (pass_.stop != nullptr && *pass_.stop)
        fail_environment(
            "[convert] stopped; the same command continues after the last complete shard");
      const auto bytes = read(first, std::min(block_, count_ - first));
      if (copies)
        write(first * unit_, bytes);
      else
        write_rounded(first, bytes);
      read_.add(std::ssize(bytes));
    }
    // So that the disk works while others are read; commit() waits for what is left then.
    ::sync_file_range(output_.descriptor(), planned_.offset, planned_.bytes, SYNC_FILE_RANGE_WRITE);
    return written_.hex();
  }

 private:
  void take_fold(const checkpoints::LoraFold& fold, const checkpoints::TensorReader& adapter) {
    updates_ = read_updates(*pass_.adapter, fold, adapter);
    if (!fold.instead) return;
    origin_ = &pass_.adapter->checkpoint.tensors[*fold.instead];
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
    write(first * std::ssize(rounded_) / std::ssize(sums_), {rounded_.data(), rounded_.size()});
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
              printable(pass_.source->tensors[planned_.index].name),
              number_text(sums_[i]),
              first + static_cast<std::int64_t>(i),
              planned_.dtype);
  }

  void write(std::int64_t offset, ByteView bytes) {
    written_.update(bytes);
    output_.write_at(planned_.offset + offset, bytes);
  }

  const ConvertPass& pass_;
  ReadCount& read_;
  const PlannedTensor& planned_;
  AtomicFile& output_;
  const checkpoints::TensorReader* reader_;
  const StoredTensor* origin_;
  std::vector<LowRankUpdate> updates_;
  std::int64_t unit_ = 1;   // bytes of an element
  std::int64_t count_ = 0;  // elements; bytes, where an element has fewer bits
  std::int64_t block_ = 0;
  std::vector<std::byte> stored_, rounded_;
  std::vector<double> sums_;
  DigestStream written_;
};

void finish_shard(const ConvertPass& pass,
                  const Shard& shard,
                  const checkpoints::Output& output,
                  const std::vector<std::string>& digests,
                  AtomicFile& file) {
  // A program that still writes a checkpoint would have a mixture converted.
  pass.source->guard.require_unchanged("convert");
  if (pass.adapter != nullptr) {
    pass.adapter->checkpoint.guard.require_unchanged("convert");
    pass.adapter->guard.require_unchanged("convert");
  }
  file.commit();
  auto record = nlohmann::json::array();
  for (const auto& tensor : shard.tensors) record.push_back(digests[tensor.index]);
  output.add_record(shard.name, record);
}

/// Whether the shard is there already; its digests then are those of its record.
bool take_finished(const Shard& shard,
                   const checkpoints::Output& output,
                   std::vector<std::string>& digests) {
  const auto record = output.record(shard.name);
  const auto is_text = [](const auto& digest) { return digest.is_string(); };
  if (!record || !record->is_array() || record->size() != shard.tensors.size() ||
      !std::ranges::all_of(*record, is_text))
    return false;
  const auto file = output.path(shard.name);
  if (!fs::exists(file) || std::cmp_not_equal(fs::file_size(file), shard.bytes)) return false;
  auto next = record->begin();
  for (const auto& tensor : shard.tensors) digests[tensor.index] = (next++)->get<std::string>();
  return true;
}

std::int64_t bytes_to_read(const ConvertPass& pass, const std::vector<const Shard*>& shards) {
  std::int64_t bytes = 0;
  for (const auto* shard : shards)
    for (const auto& tensor : shard->tensors) bytes += pass.source->tensors[tensor.index].bytes();
  return bytes;
}

}  // namespace

ConvertedBytes write_converted(const ConvertPass& pass, const checkpoints::Output& output) {
  ConvertedBytes result{.digests = std::vector<std::string>(pass.source->tensors.size())};
  std::vector<const Shard*> shards;
  for (const auto& shard : pass.plan->shards)
    if (!take_finished(shard, output, result.digests)) shards.push_back(&shard);
  result.read = bytes_to_read(pass, shards);
  ConvertFiles files{checkpoints::TensorReader(*pass.source), {}};
  if (pass.adapter != nullptr) files.adapter.emplace(pass.adapter->checkpoint);
  ReadCount read(result.read, pass.progress);
  std::future<void> before;  // the last shard becomes durable while the next one is read
  for (const auto* shard : shards) {
    auto file = std::make_unique<AtomicFile>(output.path(shard->name));
    file->reserve(shard->bytes);
    file->write_at(0, shard->head);
    in_parallel(std::ssize(shard->tensors), pass.threads, [&](std::int64_t i) {
      const auto& planned = shard->tensors[i];
      result.digests[planned.index] = TensorConversion(pass, files, read, planned, *file).run();
    });
    result.written += shard->bytes;
    if (before.valid()) before.get();
    before = std::async(std::launch::async, [&, shard, file = std::move(file)] {
      finish_shard(pass, *shard, output, result.digests, *file);
    });
  }
  if (before.valid()) before.get();
  return result;
}

}  // namespace dimred::verbs
