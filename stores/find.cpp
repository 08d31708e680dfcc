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
    throw StoreError(
        concat("[stores] ",
               shown(url),
               " is damaged: ",
               name,
               at == sizes.end() ? concat(" is missing")
                                 : concat(" has ", at->second, " bytes of ", file.size)),
        false);
  }
}

std::vector<Found> in_folder(Store& store, const Url& url, const StoreOptions& options) {
  std::vector<Item> items;
  with_attempts(options, [&] { items = store.list(url); });
  if (const auto at = std::ranges::find(items, complete_name, &Item::name); at != items.end()) {
    const auto listing = read_listing(store, child(url, complete_name), *at, options);
    require_whole(url, listing, items);
    return listed(url, listing);
  }
  if (std::ranges::find(items, incomplete_name, &Item::name) != items.end())
    throw Unfinished(
        concat("[stores] the upload to ", shown(url), " has not ended: it has no ", complete_name));
  std::vector<Found> found;
  for (auto& item : items) {
    if (!is_inside(item.name))
      throw StoreError(concat("[stores] ", shown(url), " holds a name outside of its folder"),
                       false);
    auto place = child(url, item.name);
    found.push_back({std::move(item), std::move(place), ""});
  }
  return found;
}

}  // namespace

bool is_pattern(const Url& url) {
  return !url.scheme.starts_with("http") &&
         url.path.substr(url.path.rfind('/') + 1).find_first_of("*?[") != std::string::npos;
}

std::vector<Found> find(Store& store, const Url& url, const StoreOptions& options) {
  if (is_pattern(url)) {
    const auto pattern = last_name(url);
    auto found = in_folder(store, parent(url), options);
    std::erase_if(found, [&](const Found& one) {
      return fnmatch(pattern.c_str(), one.item.name.c_str(), FNM_PATHNAME) != 0;
    });
    return found;
  }
  // A server answers the address of a folder with a page about it, so the listing comes first. A
  // signed link is one file's.
  if (!store.lists() && url.query.empty()) {
    try {
      const auto place = child(url, complete_name);
      std::optional<Item> item;
      with_attempts(options, [&] { item = store.stat(place); });
      if (item) return listed(url, read_listing(store, place, *item, options));
    } catch (const Refused&) {  // the file itself may be had
    }
  }
  std::optional<Item> item;
  with_attempts(options, [&] { item = store.stat(url); });
  if (item) {
    item->name.clear();
    return {{*item, url, ""}};
  }
  if (!store.lists()) return {};
  return in_folder(store, url, options);
}

}  // namespace dimred::stores
