#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

// Which files of a data set have to be here, when only a part of them can be.
namespace dimred::data {

/// Coming reads: index_at(position) for begin <= position < end, about in this order.
/// Positions go on through epochs of `period` of them.
struct Upcoming {
  std::int64_t begin = 0, end = 0, period = 1;
  std::uint64_t sequence = 0;  // another number where index_at is another function
  std::function<std::int64_t(std::int64_t position)> index_at;
};

/// Files that come and go: the bytes of each when it is here, in the order of
/// Dataset::shard_sizes(), and the room for all of them.
struct StreamCapacity {
  std::vector<std::int64_t> bytes;
  std::int64_t room = 0;
  std::int64_t packed = 0;   // of the largest compressed file, which is beside its content while it
                             // comes; 0: none is
  std::int64_t fetches = 1;  // files that come at a time
  /// Bytes that this number of files needs beside their own while they come.
  std::int64_t beside(std::int64_t files) const { return std::min(files, fetches) * packed; }
  /// Bytes that all files need.
  std::int64_t total() const;
};

/// The files that the samples from a position on need, in the order of first need, as many as fit:
/// a pure function of the positions, found in steps of bounded cost.
class StreamPlan {
 public:
  explicit StreamPlan(StreamCapacity files);

  using ShardAt = std::function<std::size_t(std::int64_t position)>;
  /// Positions before `begin` (which never goes back) are done; looks ahead until a file does not
  /// fit, as far as `end`, and at most at `most` further positions. Returns whether shards() is
  /// another list. Cost: shard_at for each position once.
  bool advance(std::int64_t begin, std::int64_t end, const ShardAt& shard_at, std::int64_t most);

  const std::vector<std::size_t>& shards() const { return shards_; }

 private:
  StreamCapacity files_;
  std::vector<std::int64_t> last_;  // position that needs it, of those seen; -1: not in the list
  std::vector<std::size_t> shards_;
  std::int64_t used_ = 0;
  std::int64_t next_ = 0;  // the first position that was not looked at
};

/// Bytes of files that `span` samples one behind another can lie in, at most, in whatever order the
/// files are: one file at either end, between them as many of the smallest as have `span` samples,
/// and each of these as large as the largest. `samples` and `bytes` are of each file; span >= 1.
std::int64_t bytes_at_a_time(const std::vector<std::int64_t>& samples,
                             const std::vector<std::int64_t>& bytes,
                             std::int64_t span);
/// Returns the least room for such spans, including their needs while they come.
std::int64_t bytes_at_a_time(const std::vector<std::int64_t>& samples,
                             const StreamCapacity& files,
                             std::int64_t span);

}  // namespace dimred::data
