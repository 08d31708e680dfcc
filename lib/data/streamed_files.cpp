#include "data/streamed_files.h"

#include <algorithm>
#include <utility>

#include "data/inflated_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/stopwatch.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

/// Positions that one call looks at: 10 ms.
constexpr std::int64_t most_positions = 1 << 15;

}  // namespace

void make_ready(const fs::path& file, const std::string& url, const std::string& digest) {
  inflate_in_place(file, url);
  if (digest.empty()) return;
  const MappedFile mapped(file);
  mapped.read_sequentially(true);
  require_environment(
      digest_of(mapped.bytes()) == digest,
      "[stream] {} changed after dimred wrote the index of this file; start the command again; if "
      "this message returns, write the index again with `dimred data index --overwrite`",
      url);
}

StreamedFiles::StreamedFiles(std::shared_ptr<ShardSource> source,
                             const std::vector<RecordShard>& shards)
    : source_(std::move(source)), open_(shards.size()) {
  check(shards.size() == source_->shards().size(), "an index of other files");
  room_.room = source_->room();
  room_.fetches = source_->fetches();
  std::vector<std::string> digests;
  std::vector<std::string> urls;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    room_.bytes.push_back(shards[i].identity.size);
    digests.push_back(shards[i].digest);
    urls.push_back(url(i));
    const auto need = need_of(i).bytes;
    room_.packed = std::max(room_.packed, need - room_.bytes[i]);
    require(need <= room_.room,
            "[stream] stream_cache needs to be at least {} bytes, so that the largest file, {}, "
            "fits; received {} bytes",
            need,
            url(i),
            room_.room);
  }
  // It holds what it needs: a fetch may end after this object.
  source_->on_arrival([digests, urls](std::size_t shard, const fs::path& file) {
    make_ready(file, urls[shard], digests[shard]);
  });
}

ShardNeed StreamedFiles::need_of(std::size_t shard) const {
  const auto here = room_.bytes[shard], there = source_->shards()[shard].bytes;
  return {shard, here == there ? here : here + there};
}

StreamedFiles::~StreamedFiles() { source_->want({}); }

StreamedFiles::Part StreamedFiles::read(std::size_t shard,
                                        std::uint64_t offset,
                                        std::size_t size,
                                        std::vector<std::uint8_t>& scratch,
                                        Verify verify) {
  Part part;
  for (bool again = false;; again = true) {
    std::shared_ptr<const MappedFile> file;
    try {
      file = file_of(shard, part.seconds_fetching);
      const auto wanted = file->bytes().subspan(offset, size);
      file->fetch(wanted);
      scratch.assign(wanted.begin(), wanted.end());
      part.bytes = scratch;
      verify(part.bytes);
      return part;
    } catch (const std::runtime_error& error) {
      if (again)
        throw FetchFailed(
            formatted("[stream] {}, offset {}: the copy on this machine is damaged, and a second "
                      "download of the file is damaged too: {}",
                      url(shard),
                      offset,
                      error.what()));
      discard(shard, file);
    }
  }
}

std::shared_ptr<const MappedFile> StreamedFiles::file_of(std::size_t shard,
                                                         double& seconds_fetching) {
  {
    const std::lock_guard lock(mutex_);
    if (open_[shard]) return open_[shard];
  }
  const ScopedSeconds fetching(seconds_fetching);
  return open(shard);
}

/// Throws std::runtime_error when it cannot be opened or is of another length than the index says,
/// so that every record lies within it.
std::shared_ptr<const MappedFile> StreamedFiles::open(std::size_t shard) {
  {
    const std::lock_guard lock(mutex_);
    if (!plan_) want_from(shard);
  }
  while (true) {
    const auto path = source_->get(need_of(shard), reads_are_stopped);
    try {
      auto file = std::make_shared<const MappedFile>(path);
      require_environment(std::ssize(file->bytes()) == room_.bytes[shard],
                          "[stream] {} has {} bytes, but the index says {} bytes",
                          path,
                          file->bytes().size(),
                          room_.bytes[shard]);
      const std::lock_guard lock(mutex_);
      open_[shard] = file;
      return file;
    } catch (const std::invalid_argument&) {
      // Gone since then, for what another process needs.
    }
  }
}

/// `file`: what was read; null where it could not be opened.
void StreamedFiles::discard(std::size_t shard, const std::shared_ptr<const MappedFile>& file) {
  const std::lock_guard lock(mutex_);
  if (open_[shard] && open_[shard] != file) return;  // another thread has the next one already
  open_[shard].reset();
  source_->drop(shard);
}

/// The caller of this function and of the next two holds the mutex.
void StreamedFiles::want(const std::vector<std::size_t>& shards) {
  std::vector<ShardNeed> needs;
  std::vector<bool> stays(open_.size(), false);
  for (const auto shard : shards) {
    needs.push_back(need_of(shard));
    stays[shard] = true;
  }
  for (std::size_t i = 0; i < open_.size(); ++i)
    if (!stays[i]) open_[i].reset();  // so that its bytes are free when it gives way
  source_->want(std::move(needs));
}

void StreamedFiles::want_from(std::size_t shard) {
  std::vector<std::size_t> shards;
  std::int64_t used = 0;
  for (auto i = shard; i < open_.size(); ++i) {
    used += room_.bytes[i];
    if (i > shard && used + room_.beside(std::ssize(shards) + 1) > room_.room) break;
    shards.push_back(i);
  }
  want(shards);
}

void StreamedFiles::expect(const Upcoming& upcoming,
                           const std::function<std::size_t(std::int64_t)>& shard_of) {
  const std::lock_guard lock(mutex_);
  const bool other = !plan_ || sequence_ != upcoming.sequence;
  if (other) {
    plan_.emplace(room_);
    sequence_ = upcoming.sequence;
  }
  // Further than an epoch nothing is known that would not come by itself.
  const auto end = std::min(upcoming.end, upcoming.begin + upcoming.period);
  const auto shard_at = [&](std::int64_t position) {
    return shard_of(upcoming.index_at(position));
  };
  if (plan_->advance(upcoming.begin, end, shard_at, most_positions) || other) want(plan_->shards());
}

}  // namespace dimred::data
