#include <fnmatch.h>

#include <algorithm>

#include "stores/attempts.h"
#include "stores/download.h"
#include "stores/listing.h"
#include "support/errors.h"

namespace dimred::stores {
namespace {

std::vector<Found> listed(const Url& url, const Listing& listing) {
  std::vector<Found> found;
  for (const auto& [name, file] : listing)
    found.push_back({{name, file.size, file.digest}, child(url, file.stored), file.digest});
  return found;
}

/// Listed objects that are not there, or as long as listed, would be met only after hours.
void require_whole(const Url& url, const Listing& listing, const std::vector<Item>& items) {
  std::map<std::string, std::int64_t> sizes;
  for (const auto& item : items) sizes[item.name] = item.size;
  for (const auto& [name, file] : listing) {
    const auto at = sizes.find(file.stored);
    if (at != sizes.end() && at->second == file.size) continue;
    throw Changed(formatted("[stores] {} is damaged: {}{}",
                            shown(url),
                            name,
                            at == sizes.end()
                                ? formatted(" is missing")
                                : formatted(" has {} bytes of {}", at->second, file.size)));
  }
}

std::vector<Found> look_in_folder(Store& store, const Url& url, const StoreOptions& options) {
  std::vector<Item> items;
  with_attempts(options, [&] { items = store.list(url); });
  if (const auto item = listing_among(items, complete_name)) {
    const auto listing = read_listing(store, child(url, item->name), *item, options);
    require_whole(url, listing, items);
    return listed(url, listing);
  }
  if (listing_among(items, incomplete_name))
    throw Unfinished(formatted(
        "[stores] the upload to {} has not ended: it has no {}", shown(url), complete_name));
  const auto ending = store.temporary_ending();
  std::vector<Found> found;
  for (auto& item : items) {
    if (!ending.empty() && item.name.ends_with(ending)) continue;  // somebody is at it
    if (!is_inside(item.name))
      throw StoreError(formatted("[stores] {} holds a name outside of its folder", shown(url)),
                       false);
    auto place = child(url, item.name);
    found.push_back({std::move(item), std::move(place), ""});
  }
  return found;
}

/// Where nothing can be listed, a folder is what its listing says. A server may answer that address
/// with a refusal, or a page of its own, though the file may be had.
std::vector<Found> by_listing(Store& store, const Url& url, const StoreOptions& options) {
  return looking_again([&]() -> std::vector<Found> {
    const auto place = child(url, complete_name);
    std::optional<Item> item;
    try {
      with_attempts(options, [&] { item = store.stat(place); });
    } catch (const StoreError& error) {
      if (error.passing()) throw;
    }
    if (!item) return {};
    const auto listing = read_if_listing(store, place, *item, options);
    return listing ? listed(url, *listing) : std::vector<Found>();
  });
}

}  // namespace

/// An upload that commits meanwhile makes the list and the listing differ.
std::vector<Found> find_in_folder(Store& store, const Url& folder, const StoreOptions& options) {
  return looking_again([&] { return look_in_folder(store, folder, options); });
}

bool is_pattern(const Url& url) {
  return !url.scheme.starts_with("http") &&
         url.path.substr(url.path.rfind('/') + 1).find_first_of("*[") != std::string::npos;
}

bool matches_pattern(const Url& url, const std::string& name) {
  return fnmatch(last_name(url).c_str(), name.c_str(), FNM_PATHNAME) == 0;
}

std::vector<Found> find(Store& store, const Url& url, const StoreOptions& options) {
  if (is_pattern(url)) {
    auto found = find_in_folder(store, parent(url), options);
    std::erase_if(found, [&](const Found& one) { return !matches_pattern(url, one.item.name); });
    return found;
  }
  // A server answers the address of a folder with a page about it, so the listing comes first. A
  // signed link is one file's.
  if (!store.lists() && url.query.empty()) {
    if (auto found = by_listing(store, url, options); !found.empty()) return found;
  }
  std::optional<Item> item;
  with_attempts(options, [&] { item = store.stat(url); });
  if (item) {
    item->name.clear();
    return {{*item, url, ""}};
  }
  if (!store.lists()) return {};
  return find_in_folder(store, url, options);
}

}  // namespace dimred::stores
