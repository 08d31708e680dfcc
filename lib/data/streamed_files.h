#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/record_index.h"
#include "data/shard_source.h"
#include "data/stream_plan.h"
#include "support/bytes.h"
#include "support/mapped_file.h"

namespace dimred::data {

/// Parts of files that are fetched when they are needed, and ahead of it. Safe from several
/// threads.
class StreamedFiles {
 public:
  /// `shards` are what the index says about the source's files, in their order: their bytes, and
  /// the digest that each has to have when it has come.
  StreamedFiles(std::shared_ptr<ShardSource> source, const std::vector<RecordShard>& shards);
  ~StreamedFiles();
  StreamedFiles(const StreamedFiles&) = delete;
  StreamedFiles& operator=(const StreamedFiles&) = delete;

  struct Part {
    Bytes bytes;                  // in `scratch`
    double seconds_fetching = 0;  // that it waited for the file
  };
  /// Throws std::runtime_error unless the bytes are what was asked for.
  using Verify = void (*)(Bytes bytes);
  /// Waits for the file where it is not here. A local file of a length other than the index's,
  /// unreadable, or with other bytes, is fetched again, once: whatever it is, it is no sample's
  /// fault. Throws FetchFailed, and ReadingStopped.
  Part read(std::size_t shard,
            std::uint64_t offset,
            std::size_t size,
            std::vector<std::uint8_t>& scratch,
            Verify verify);

  /// Takes the coming reads, and the file of each index. Files that this needs first are fetched as
  /// far as there is room. Until it is called, files are taken to be read from first to last.
  void expect(const Upcoming& upcoming,
              const std::function<std::size_t(std::int64_t index)>& shard_of);

  const StreamCapacity& room() const { return room_; }
  const std::string& url(std::size_t shard) const { return source_->shards()[shard].url; }

 private:
  std::shared_ptr<const MappedFile> file_of(std::size_t shard, double& seconds_fetching);
  std::shared_ptr<const MappedFile> open(std::size_t shard);
  void discard(std::size_t shard, const std::shared_ptr<const MappedFile>& file);
  ShardNeed need_of(std::size_t shard) const;
  void want(const std::vector<std::size_t>& shards);
  void want_from(std::size_t shard);

  std::shared_ptr<ShardSource> source_;
  StreamCapacity room_;
  std::mutex mutex_;                                     // guards what follows
  std::vector<std::shared_ptr<const MappedFile>> open_;  // by file; null: not read just now
  std::optional<StreamPlan> plan_;
  std::uint64_t sequence_ = 0;
};

/// Makes a file that has come what the index describes: decompressed where it is gz. Throws
/// std::runtime_error naming `url` unless it has the digest, where one is known.
void make_ready(const std::filesystem::path& file,
                const std::string& url,
                const std::string& digest);

}  // namespace dimred::data
