#include "checkpoints/shard_writer.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoints/float_sums.h"
#include "checkpoints/weight_names.h"
#include "support/formatted.h"
#include "support/parallel.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

/// So that the disk works while others are read; commit() waits for what is left then.
void begin_writing(const AtomicFile& file, const PlannedTensor& tensor) {
  ::sync_file_range(file.descriptor(), tensor.offset, tensor.bytes, SYNC_FILE_RANGE_WRITE);
}

bool has_size(const fs::path& file, std::int64_t bytes) {
  return fs::exists(file) && std::cmp_equal(fs::file_size(file), bytes);
}

}  // namespace

void TensorStream::append(ByteView bytes) {
  digest_.update(bytes);
  file_->write_at(offset_, bytes);
  offset_ += std::ssize(bytes);
}

void TensorStream::append_rounded(std::string_view dtype,
                                  std::span<const double> sums,
                                  ByteView rounded) {
  if (!has_value_) {
    const auto is_value = [](double sum) { return sum != 0; };
    had_value_ = had_value_ || std::ranges::any_of(sums, is_value);
    has_value_ = had_value_ && !all_zero(dtype, rounded);
  }
  append(rounded);
}

ShardWriter::ShardWriter(const Output& output,
                         const ShardPlan& plan,
                         std::vector<fs::path> folders,
                         std::size_t inputs,
                         std::size_t tensors)
    : output_(output),
      folders_(std::move(folders)),
      read_(inputs, std::vector<std::string>(tensors)),
      written_(folders_.size(), std::vector<std::string>(tensors)),
      vanished_(written_) {
  for (const auto& shard : plan.shards)
    if (!take_recorded(shard)) left_.push_back(&shard);
}

std::int64_t ShardWriter::bytes_left() const {
  std::int64_t bytes = 0;
  for (const auto* shard : left_) bytes += shard->bytes * std::ssize(folders_);
  return bytes;
}

/// Beside its first file.
fs::path ShardWriter::record_name(const Shard& shard) const {
  return folders_.front() / shard.name;
}

/// Whether each folder's file of a finished shard has the values that were written.
bool ShardWriter::is_as_written(const Shard& shard) const {
  const auto count = std::ssize(shard.tensors);
  std::vector<InputFile> files;
  for (const auto& folder : folders_) files.emplace_back(output_.path(folder / shard.name));
  const auto has_head = [&](const InputFile& file) {
    return file.part(0, std::ssize(shard.head)) == shard.head;
  };
  if (!std::ranges::all_of(files, has_head)) return false;
  std::atomic<bool> same = true;
  in_parallel(count * std::ssize(files), available_threads(), [&](std::int64_t i) {
    const auto& tensor = shard.tensors[i % count];
    DigestStream digest;
    files[i / count].read(
        tensor.offset, tensor.offset + tensor.bytes, [&](ByteView part) { digest.update(part); });
    if (digest.hex() != written_[i / count][tensor.index]) same = false;
  });
  return same;
}

/// Returns whether the shard is there already and undamaged; its digests then are those of its
/// record.
bool ShardWriter::take_recorded(const Shard& shard) {
  const auto record = output_.record(record_name(shard));
  const auto size = shard.tensors.size() * (read_.size() + 2 * written_.size());
  const auto is_text = [](const auto& digest) { return digest.is_string(); };
  if (!record || !record->is_array() || record->size() != size ||
      !std::ranges::all_of(*record, is_text))
    return false;
  for (const auto& folder : folders_)
    if (!has_size(output_.path(folder / shard.name), shard.bytes)) return false;
  auto next = record->begin();
  for (const auto& tensor : shard.tensors)
    for (auto* all : {&read_, &written_, &vanished_})
      for (auto& digests : *all) digests[tensor.index] = (next++)->get<std::string>();
  return is_as_written(shard);
}

ShardWriter::Files ShardWriter::write_shard(const Shard& shard,
                                            std::int64_t threads,
                                            const WriteTensor& write_tensor) {
  Files files;
  for (const auto& folder : folders_) {
    files.push_back(std::make_unique<AtomicFile>(output_.path(folder / shard.name)));
    files.back()->reserve(shard.bytes);
    files.back()->write_at(0, shard.head);
  }
  in_parallel(std::ssize(shard.tensors), threads, [&](std::int64_t i) {
    const auto& tensor = shard.tensors[i];
    std::vector<TensorStream> streams;
    for (const auto& file : files) streams.emplace_back(*file, tensor.offset);
    auto read = write_tensor(tensor, streams);
    for (const auto& file : files) begin_writing(*file, tensor);
    for (std::size_t f = 0; f < streams.size(); ++f) {
      written_[f][tensor.index] = streams[f].digest();
      vanished_[f][tensor.index] = streams[f].vanished() ? "1" : "";
    }
    for (std::size_t r = 0; r < read_.size(); ++r) read_[r][tensor.index] = std::move(read.at(r));
  });
  return files;
}

void ShardWriter::finish(const Shard& shard, const Files& files) const {
  for (const auto& file : files) file->commit();
  auto record = nlohmann::json::array();
  for (const auto& tensor : shard.tensors)
    for (const auto* all : {&read_, &written_, &vanished_})
      for (const auto& digests : *all) record.push_back(digests[tensor.index]);
  output_.add_record(record_name(shard), record);
}

void ShardWriter::write(std::int64_t threads,
                        const WriteTensor& write_tensor,
                        const std::function<void()>& require_unchanged) {
  std::future<void> before;  // the last shard becomes durable while the next one is read
  for (const auto* shard : left_) {
    auto files = write_shard(*shard, threads, write_tensor);
    if (before.valid()) before.get();
    before = std::async(std::launch::async, [&, shard, files = std::move(files)] {
      require_unchanged();
      finish(*shard, files);
    });
  }
  if (before.valid()) before.get();
}

std::vector<std::size_t> ShardWriter::vanished() const {
  std::vector<std::size_t> places;
  for (std::size_t tensor = 0; tensor < vanished_.front().size(); ++tensor)
    if (std::ranges::any_of(vanished_, [&](const auto& marks) { return !marks[tensor].empty(); }))
      places.push_back(tensor);
  return places;
}

std::string vanished_remark(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  return formatted("all values are too small for the type that is written, and became 0: {}",
                   count_and_names(names));
}

}  // namespace dimred::checkpoints
