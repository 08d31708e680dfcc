#include "data/samplers.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "support/errors.h"
#include "support/random.h"

namespace dimred::data {
namespace {

/// One permutation for each pair; fewer than 2^32 of either are met.
std::uint64_t key_of(std::int64_t epoch, std::int64_t part) {
  return static_cast<std::uint64_t>(epoch) << 32 ^ part;
}

/// The files in an epoch's order.
struct FileOrder {
  std::uint64_t seed = 0;
  std::int64_t epoch = -1;
  std::vector<std::int64_t> first;  // index of each file's first sample
  std::vector<std::int64_t> end;    // samples up to the end of each file
};

class Windowed : public Sampler {
 public:
  Windowed(std::vector<std::int64_t> sizes, std::int64_t window)
      : sizes_(std::move(sizes)), window_(window), starts_(sizes_.size(), 0) {
    require(window >= 1, "[shuffle_buffer_size] needs a value >= 1, received {}", window);
    for (const auto size : sizes_)
      require(size >= 0,
              "[shuffle_buffer_size] a file's number of samples cannot be negative, received {}",
              size);
    std::exclusive_scan(sizes_.begin(), sizes_.end(), starts_.begin(), std::int64_t{0});
    size_ = std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0});
    require(size_ >= 1, "[shuffle_buffer_size] needs at least one sample, received none");
  }

  std::int64_t size() const override { return size_; }

  std::int64_t at(std::uint64_t seed, std::int64_t epoch, std::int64_t position) const override {
    const auto files = order_of(seed, epoch);
    const auto window = position / window_;
    const auto begin = window * window_;
    const std::int64_t sample_position = begin + permuted(position - begin,
                                                          std::min(window_, size_ - begin),
                                                          seed,
                                                          RandomPurpose::window,
                                                          key_of(epoch, window));
    const auto file = std::ranges::upper_bound(files->end, sample_position) - files->end.begin();
    const auto before = file == 0 ? 0 : files->end[file - 1];
    return files->first[file] + sample_position - before;
  }

 private:
  std::shared_ptr<const FileOrder> order_of(std::uint64_t seed, std::int64_t epoch) const {
    const std::scoped_lock lock(mutex_);
    if (latest_->seed == seed && latest_->epoch == epoch) return latest_;
    auto order = std::make_shared<FileOrder>();
    order->seed = seed;
    order->epoch = epoch;
    std::int64_t end = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const auto file = permuted(i, sizes_.size(), seed, RandomPurpose::shards, epoch);
      order->first.push_back(starts_[file]);
      order->end.push_back(end += sizes_[file]);
    }
    return latest_ = order;
  }

  std::vector<std::int64_t> sizes_;
  std::int64_t window_, size_ = 0;
  std::vector<std::int64_t> starts_;
  mutable std::mutex mutex_;  // guards latest_
  mutable std::shared_ptr<const FileOrder> latest_ = std::make_shared<FileOrder>();
};

class FileShares : public Sampler {
 public:
  FileShares(std::int64_t share, int ranks, std::int64_t global_batch)
      : share_(share), ranks_(ranks), batch_(global_batch) {
    require(share >= 1, "[shard] needs 1 or more samples for each rank, received {}", share);
    require(ranks >= 1 && global_batch >= 1 && global_batch % ranks == 0,
            "[shard] needs a global batch size that is a multiple of the number of ranks, received "
            "{} samples and {} ranks",
            global_batch,
            ranks);
  }

  std::int64_t size() const override { return share_ * ranks_; }

  std::int64_t at(std::uint64_t seed, std::int64_t epoch, std::int64_t position) const override {
    // Batches, the last one too, are multiples of the ranks: each has an equal part for every rank.
    const auto step = position / batch_;
    const auto begin = step * batch_;
    const auto part = std::min(batch_, size() - begin) / ranks_;
    const auto rank = (position - begin) / part;
    const auto sample_position = begin / ranks_ + (position - begin) % part;
    return rank * share_ +
           permuted(sample_position, share_, seed, RandomPurpose::shards, key_of(epoch, rank + 1));
  }

 private:
  std::int64_t share_, ranks_, batch_;
};

}  // namespace

std::shared_ptr<const Sampler> windowed_shuffle(std::vector<std::int64_t> shard_sizes,
                                                std::int64_t window) {
  return std::make_shared<Windowed>(std::move(shard_sizes), window);
}

std::shared_ptr<const Sampler> file_shares(std::int64_t share,
                                           int ranks,
                                           std::int64_t global_batch) {
  return std::make_shared<FileShares>(share, ranks, global_batch);
}

std::vector<std::int64_t> even_shares(const std::vector<std::int64_t>& shard_sizes,
                                      int ranks,
                                      std::uint64_t seed) {
  require(ranks >= 1, "[shard] needs ranks >= 1, received {}", ranks);
  const auto filled = std::ranges::count_if(shard_sizes, [](auto size) { return size > 0; });
  require(filled >= ranks,
          "[shard] needs a file for each of {} ranks, received {} files; make one file for each "
          "rank with dimred data shuffle-split",
          ranks,
          filled);
  std::vector<std::vector<std::int64_t>> shares(ranks);
  std::int64_t index = 0, file = 0;
  for (const auto size : shard_sizes) {
    if (size == 0) continue;
    auto& share = shares[file++ % ranks];
    for (std::int64_t i = 0; i < size; ++i) share.push_back(index++);
  }
  std::size_t largest = 0;
  for (const auto& share : shares) largest = std::max(largest, share.size());
  std::vector<std::int64_t> indices;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const auto& share = shares[rank];
    indices.insert(indices.end(), share.begin(), share.end());
    for (std::size_t i = share.size(); i < largest; ++i) {
      const auto again = i - share.size();
      indices.push_back(share[permuted(again % share.size(),
                                       share.size(),
                                       seed,
                                       RandomPurpose::padding,
                                       rank << 32 ^ again / share.size())]);
    }
  }
  return indices;
}

}  // namespace dimred::data
