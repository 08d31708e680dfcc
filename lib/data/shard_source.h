#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Files of a data set that lie elsewhere and are here for a while only. This room knows no remote
// stores: a caller that does implements a ShardSource and says which path stands for it.
namespace dimred::data {

/// A file that lies elsewhere.
struct RemoteShard {
  std::string name;        // below its folder: "train-00003-of-00008"
  std::string url;         // for messages: its URL
  std::int64_t bytes = 0;  // as it lies there
  std::string version;     // another one when the file is
};

/// A file of a source, and the bytes that it takes here while it comes: a gz file both as it lies
/// there and decompressed.
struct ShardNeed {
  std::size_t shard = 0;
  std::int64_t bytes = 0;
  bool operator==(const ShardNeed&) const = default;
};

class ShardSource {
 public:
  virtual ~ShardSource() = default;
  virtual const std::vector<RemoteShard>& shards() const = 0;
  /// For messages: the file `name` of the folder that the shards' names are below, its URL.
  virtual std::string url_of(const std::string& name) const = 0;
  /// Local, for what is made of the shards and stays.
  virtual std::filesystem::path folder() const = 0;
  /// Bytes that the shards may take here together.
  virtual std::int64_t room() const = 0;
  /// Files that come at a time.
  virtual std::int64_t fetches() const = 0;
  /// Gets each file that has just come, before anybody sees it; may change it in place. An
  /// exception that it throws is why the file cannot be had.
  using Arrival = std::function<void(std::size_t shard, const std::filesystem::path& file)>;
  virtual void on_arrival(Arrival arrival) = 0;
  /// Brings these in the background, in this order as far as there is room, where they stay in the
  /// place of others. A later call replaces an earlier one.
  virtual void want(std::vector<ShardNeed> needs) = 0;
  /// The file, once it is here. It may be gone a moment later, but for who has it open. Throws
  /// FetchFailed, and ReadingStopped when `stopped` (asked now and then) says so. Safe from several
  /// threads.
  virtual std::filesystem::path get(const ShardNeed& need,
                                    const std::function<bool()>& stopped) = 0;
  /// The file that get() has given is not what it has to be: the next get() fetches it again.
  virtual void drop(std::size_t shard) = 0;
};

/// A file cannot be had. No std::runtime_error: it is no sample's fault, so nobody may pass over
/// the sample and go on.
class FetchFailed : public std::exception {
 public:
  explicit FetchFailed(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

/// A read that waited has been called off.
class ReadingStopped : public std::exception {
 public:
  const char* what() const noexcept override { return "reading was stopped"; }
};

/// While it lives, reads of this thread that wait for a file are called off when `flag` is set.
class StoppableReads {
 public:
  explicit StoppableReads(const std::atomic<bool>& flag);
  ~StoppableReads();
  StoppableReads(const StoppableReads&) = delete;
  StoppableReads& operator=(const StoppableReads&) = delete;
};
bool reads_are_stopped();

/// `path`, a local folder or pattern, stands for the source's files from now on in this process.
void stream_from(const std::filesystem::path& path, std::shared_ptr<ShardSource> source);
/// nullptr for other paths.
std::shared_ptr<ShardSource> source_of(const std::filesystem::path& path);
/// To be called before main returns: sources end while what they use is still there.
void forget_sources();

}  // namespace dimred::data
