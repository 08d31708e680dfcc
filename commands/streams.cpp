#include "commands/streams.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "data/shard_index.h"
#include "data/shard_names.h"
#include "data/shard_source.h"
#include "stores/shard_cache.h"
#include "support/errors.h"
#include "support/formatted.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

stores::ShardCache::Need to_need(const data::ShardNeed& need) { return {need.shard, need.bytes}; }

/// Shards of room `data` by the cache of room `stores`.
class StoredShards : public data::ShardSource {
 public:
  StoredShards(const stores::Url& url,
               stores::StreamedFolder streamed,
               stores::ShardCache::OpenStore open,
               const stores::ShardCacheOptions& options)
      : url_(stores::is_pattern(url) ? stores::parent(url) : url),
        folder_(std::move(streamed.entry)),
        cache_(std::move(streamed.shards), std::move(open), options) {
    for (const auto& [item, url, digest] : cache_.shards())
      shards_.push_back({item.name, stores::shown(url), item.size, item.etag});
  }

  const std::vector<data::RemoteShard>& shards() const override { return shards_; }
  std::string url_of(const std::string& name) const override {
    return stores::shown(stores::child(url_, name));
  }
  fs::path folder() const override { return folder_; }
  std::int64_t room() const override { return cache_.room(); }
  std::int64_t fetches() const override { return cache_.fetches(); }
  void on_arrival(Arrival arrival) override { cache_.on_arrival(std::move(arrival)); }

  void want(std::vector<data::ShardNeed> needs) override {
    std::vector<stores::ShardCache::Need> wanted;
    wanted.reserve(needs.size());
    for (const auto& need : needs) wanted.push_back(to_need(need));
    cache_.want(std::move(wanted));
  }

  fs::path get(const data::ShardNeed& need, const std::function<bool()>& stopped) override {
    try {
      return cache_.get(to_need(need), stopped);
    } catch (const stores::StopRequested&) {
      throw data::ReadingStopped();
    } catch (const stores::Changed& error) {
      throw data::FetchFailed(
          formatted("{}; streamed files must not change during a run", error.what()));
    } catch (const std::exception& error) {
      const std::string text = error.what();
      const auto& url = shards_[need.shard].url;
      const bool named = text.find(url) != std::string::npos;
      throw data::FetchFailed(named ? text : formatted("[stream] cannot fetch {}: {}", url, text));
    }
  }

  void drop(std::size_t shard) override { cache_.drop(shard); }

 private:
  stores::Url url_;  // of the folder
  fs::path folder_;
  stores::ShardCache cache_;
  std::vector<data::RemoteShard> shards_;
};

}  // namespace

std::optional<StreamingOptions> streaming_of(const OptionTable& table) {
  const auto* const cache = table.row(OptionRole::stream_cache);
  const auto* const fetches = table.row(OptionRole::stream_fetches);
  if (cache == nullptr || fetches == nullptr) return std::nullopt;
  const StreamingOptions options{std::stod(cache->show()), std::stoll(fetches->show())};
  if (options.cache == 0) return std::nullopt;
  return options;
}

stores::Brought open_streamed(const stores::Url& url,
                              const StreamingOptions& streaming,
                              bool shards_alone,
                              const stores::StoreOptions& options,
                              std::string& note) {
  constexpr double giga = 1e9;
  const stores::Rest rest{.wanted = !shards_alone,
                          .beside = {"labels.txt", data::shards_index_name}};
  auto streamed = stores::open_stream(url, data::training_shards, rest, options);
  const auto room = static_cast<std::int64_t>(streaming.cache * giga);
  std::int64_t bytes = 0;
  for (const auto& shard : streamed.shards) {
    bytes += shard.item.size;
    require(shard.item.size <= room,
            "[stream] needs a stream_cache with room for the file {} of {}, received {} GB",
            shard.url,
            bytes_text(shard.item.size),
            streaming.cache);
  }
  note = formatted("streams {}: {} files, {}, with a stream_cache of {}\n",
                   url,
                   streamed.shards.size(),
                   bytes_text(bytes),
                   bytes_text(room));
  auto brought = streamed.rest;
  const stores::ShardCacheOptions cache{.store = options,
                                        .folder = streamed.entry / "shards",
                                        .room = room,
                                        .fetches = streaming.fetches};
  const auto open = [url](const stores::StoreOptions& own) { return stores::open_store(url, own); };
  data::stream_from(brought.path,
                    std::make_shared<StoredShards>(url, std::move(streamed), open, cache));
  return brought;
}

}  // namespace dimred::commands
