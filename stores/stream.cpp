#include "stores/stream.h"

#include <algorithm>
#include <map>
#include <utility>

#include "stores/cache.h"
#include "stores/listing.h"
#include "stores/walk.h"
#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

constexpr auto kind = "streams";

std::vector<Found> look(const Url& url, const StoreOptions& options) {
  const auto store = open_store(url, options);
  auto found =
      is_pattern(url) ? find_in_folder(*store, parent(url), options) : find(*store, url, options);
  std::erase_if(found, [](const Found& one) { return is_own_cache(one.item.name); });
  return found;
}

bool is_single(const std::vector<Found>& found) {
  return found.size() == 1 && found.front().item.name.empty();
}

/// Takes those of these names out of `found`, in the names' order.
std::vector<Found> taken(std::vector<Found>& found, const std::vector<std::string>& names) {
  std::map<std::string, Found> by_name;
  for (auto& one : found) by_name.emplace(one.item.name, std::move(one));
  std::vector<Found> chosen;
  chosen.reserve(names.size());
  for (const auto& name : names) {
    const auto at = by_name.find(name);
    check(at != by_name.end(), "a name that was not among those found");
    chosen.push_back(std::move(at->second));
    by_name.erase(at);
  }
  found.clear();
  for (auto& [name, one] : by_name) found.push_back(std::move(one));
  return chosen;
}

}  // namespace

StreamedPlace open_stream(const Url& url,
                          const PickStreamed& pick,
                          const Rest& rest,
                          const StoreOptions& options,
                          Transfer* transfer) {
  auto found = look(url, options);
  const bool pattern = is_pattern(url);
  require(!is_single(found),
          "[stores] needs a folder or a pattern of files to stream, received {}",
          shown(url));
  std::vector<std::string> names;
  for (const auto& one : found)
    if (!pattern || matches_pattern(url, one.item.name)) names.push_back(one.item.name);
  StreamedPlace place{.shards = taken(found, pick(std::move(names), pattern)),
                      .content = {},
                      .entry = place_of(url, kind, options).entry};
  require(!place.shards.empty(), "[stores] nothing to stream at {}", shown(url));
  for (const auto& shard : place.shards)
    require(!shard.item.etag.empty(),
            "[stores] needs a store that tells one version of a file from another, to stream {} "
            "(no etag and no time, or HDFS and written in this minute)",
            shown(shard.url));
  if (!rest.wanted) {
    place.content = place.entry / "none" / last_name(url);
    return place;
  }
  if (pattern)
    std::erase_if(found, [&](const Found& one) {
      return std::ranges::find(rest.beside, one.item.name) == rest.beside.end();
    });
  // Also where there is none any more: what an earlier start has brought goes.
  place.content = bring(url, options, transfer, {.kind = kind, .files = found});
  create_folders(pattern ? place.content.parent_path() : place.content);
  return place;
}

fs::path bring_chosen(const Url& url,
                      const PickStreamed& pick,
                      const StoreOptions& options,
                      Transfer* transfer) {
  if (is_pattern(url)) return bring(url, options, transfer);
  auto found = look(url, options);
  if (found.empty() || is_single(found)) return bring(url, options, transfer);
  std::vector<std::string> names;
  for (const auto& one : found) names.push_back(one.item.name);
  auto chosen = taken(found, pick(std::move(names), /*pattern=*/false));
  require(!chosen.empty(), "[stores] nothing to read at {}", shown(url));
  return bring(url, options, transfer, {.kind = "chosen", .files = std::move(chosen)});
}

}  // namespace dimred::stores
