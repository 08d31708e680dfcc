#include "data/stream_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "support/errors.h"

namespace dimred::data {

std::int64_t StreamCapacity::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), beside(std::ssize(bytes)));
}

StreamPlan::StreamPlan(StreamCapacity files) : files_(std::move(files)) {
  last_.assign(files_.bytes.size(), -1);
}

bool StreamPlan::advance(std::int64_t begin,
                         std::int64_t end,
                         const ShardAt& shard_at,
                         std::int64_t most) {
  const auto before = shards_.size();
  std::erase_if(shards_, [&](std::size_t shard) {
    if (last_[shard] >= begin) return false;
    last_[shard] = -1;
    used_ -= files_.bytes[shard];
    return true;
  });
  bool changed = shards_.size() != before;
  next_ = std::max(next_, begin);
  for (const auto stop = std::min(end, next_ + most); next_ < stop; ++next_) {
    const auto shard = shard_at(next_);
    if (last_[shard] < 0) {
      const auto bytes = files_.bytes[shard];
      const auto beside = files_.beside(std::ssize(shards_) + 1);
      if (!shards_.empty() && used_ + bytes + beside > files_.room) break;
      shards_.push_back(shard);
      used_ += bytes;
      changed = true;
    }
    last_[shard] = next_;
  }
  return changed;
}

std::int64_t bytes_at_a_time(const std::vector<std::int64_t>& samples,
                             const std::vector<std::int64_t>& bytes,
                             std::int64_t span) {
  check(samples.size() == bytes.size(), "as many counts as sizes");
  std::vector<std::int64_t> counts, sizes;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] == 0) continue;
    counts.push_back(samples[i]);
    sizes.push_back(bytes[i]);
  }
  std::ranges::sort(counts);
  std::ranges::sort(sizes, std::greater());
  std::size_t files = 0;
  for (std::int64_t held = 0; files < counts.size(); ++files) {
    held += counts[files];
    if (held > span) break;
  }
  files = std::min(files + 2, sizes.size());
  return std::accumulate(sizes.begin(), sizes.begin() + files, std::int64_t{0});
}

std::int64_t bytes_at_a_time(const std::vector<std::int64_t>& samples,
                             const StreamCapacity& files,
                             std::int64_t span) {
  return bytes_at_a_time(samples, files.bytes, span) + files.beside(std::ssize(files.bytes));
}

}  // namespace dimred::data
