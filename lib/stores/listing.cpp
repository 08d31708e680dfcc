#include "stores/listing.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "stores/attempts.h"
#include "support/json.h"

namespace dimred::stores {
namespace {

constexpr auto format = "dimred listing 1";
constexpr std::size_t largest_listing = 256 << 20;

/// A file's four values and names take six times their text.
nlohmann::json json_of(const std::string& text, const std::string& place) {
  const JsonLimits limits{
      .bytes = largest_listing, .depth = 3, .memory = JsonLimits{}.memory + 6 * text.size()};
  try {
    return parse_json(text, place + " is not a listing of dimred", limits);
  } catch (const std::runtime_error& error) {
    throw Changed("{}", error.what());
  }
}

std::vector<Found> listed(const Url& url, const Listing& listing) {
  std::vector<Found> found;
  for (const auto& [name, file] : listing)
    found.push_back({{name, file.size, file.digest}, child(url, file.stored), file.digest});
  return found;
}

/// Listed objects that are not there, or not as long as listed, would be met only after hours.
void require_whole(const Url& url, const Listing& listing, const std::vector<Item>& items) {
  const auto sizes = sizes_of(items);
  for (const auto& [name, file] : listing) {
    const auto at = sizes.find(file.stored);
    if (at == sizes.end()) throw Changed("{} is damaged: {} is missing", url, name);
    if (at->second != file.size)
      throw Changed(
          "{} is damaged: {} has {} bytes instead of {}", url, name, at->second, file.size);
  }
}

std::vector<Found> look_in_folder(Store& store, const Url& url) {
  auto items = ask(store, [&] { return store.list(url); });
  if (const auto item = listing_among(items, complete_name)) {
    const auto listing = read_listing(store, child(url, item->name), *item);
    require_whole(url, listing, items);
    return listed(url, listing);
  }
  if (listing_among(items, incomplete_name))
    throw Unfinished(
        "the upload to {} is not complete: the file {} is missing", url, complete_name);
  const auto ending = store.temporary_ending();
  std::vector<Found> found;
  for (auto& item : items) {
    if (!ending.empty() && item.name.ends_with(ending)) continue;  // somebody is at it
    if (!is_inside(item.name)) throw StoreError("{} has a name that leads out of the folder", url);
    auto place = child(url, item.name);
    found.push_back({std::move(item), std::move(place), ""});
  }
  return found;
}

}  // namespace

bool is_inside(const std::string& name) {
  const std::filesystem::path path(name);
  return !name.empty() && path.is_relative() && path.has_filename() &&
         std::ranges::none_of(path, [](const auto& part) { return part == ".." || part == "."; }) &&
         std::ranges::none_of(name, [](unsigned char letter) { return std::iscntrl(letter) != 0; });
}

Sizes sizes_of(const std::vector<Item>& items) {
  Sizes sizes;
  for (const auto& item : items) sizes[item.name] = item.size;
  return sizes;
}

std::string second_name(const std::string& name) { return name + ".next"; }

std::optional<Item> listing_among(const std::vector<Item>& items, const std::string& name) {
  for (const auto& one : {name, second_name(name)}) {
    const auto at = std::ranges::find(items, one, &Item::name);
    if (at != items.end()) return *at;
  }
  return {};
}

std::string listing_text(const Listing& listing) {
  auto files = nlohmann::json::object();
  for (const auto& [name, file] : listing) {
    files[name] = {{"size", file.size}, {"xxh3_128", file.digest}};
    if (file.stored != name) files[name]["stored"] = file.stored;
  }
  return nlohmann::json{{"format", format}, {"files", files}}.dump(1) + "\n";
}

Listing parse_listing(const std::string& text, const std::string& place) {
  const auto broken = [&](const auto& what) {
    return Changed("{} is not a listing of dimred: {}", place, what);
  };
  Listing listing;
  try {
    const auto json = json_of(text, place);
    if (json.at("format") != format) throw broken("another format");
    for (const auto& [name, file] : json.at("files").items()) {
      // A float beyond the range of 64 bits cannot be converted.
      if (!file.at("size").is_number_integer()) throw broken("a size or digest");
      const ListedFile listed{file.at("size"), file.at("xxh3_128"), file.value("stored", name)};
      if (!is_inside(name) || !is_inside(listed.stored))
        throw broken("a name outside of its folder");
      if (listed.size < 0 || listed.digest.size() != 32) throw broken("a size or digest");
      listing.emplace(name, listed);
    }
  } catch (const nlohmann::json::exception& error) {
    throw broken(error.what());
  }
  return listing;
}

std::optional<Listing> read_if_listing(Store& store, const Url& url, const Item& item) {
  if (std::cmp_greater(item.size, largest_listing)) return {};
  std::string text;
  with_attempts(store, [&] {
    text.clear();
    store.read(url, item, 0, into(text));
  });
  if (!text.starts_with('{')) return {};
  return parse_listing(text, shown(url));
}

std::optional<Listing> complete_listing(Store& store, const Url& folder) {
  return looking_again([&]() -> std::optional<Listing> {
    const auto place = child(folder, complete_name);
    std::optional<Item> item;
    try {
      item = ask(store, [&] { return store.stat(place); });
    } catch (const Passing&) {
      throw;
    } catch (const StoreError&) {
      // A folder without a listing is one that was not uploaded by us.
    }
    return item ? read_if_listing(store, place, *item) : std::nullopt;
  });
}

Listing read_listing(Store& store, const Url& url, const Item& item) {
  auto listing = read_if_listing(store, url, item);
  if (!listing) throw Changed("{} is not a listing of dimred", url);
  return std::move(*listing);
}

/// An upload that commits meanwhile makes the list and the listing differ.
std::vector<Found> find_in_folder(Store& store, const Url& folder) {
  return looking_again([&] { return look_in_folder(store, folder); });
}

bool is_single(const std::vector<Found>& found) {
  return found.size() == 1 && found.front().item.name.empty();
}

bool is_pattern(const Url& url) {
  return !url.scheme.starts_with("http") &&
         url.path.substr(url.path.rfind('/') + 1).find_first_of("*[") != std::string::npos;
}

bool matches_pattern(const Url& url, const std::string& name) {
  return fnmatch(last_name(url).c_str(), name.c_str(), FNM_PATHNAME) == 0;
}

std::vector<Found> find(Store& store, const Url& url) {
  if (is_pattern(url)) {
    auto found = find_in_folder(store, parent(url));
    std::erase_if(found, [&](const Found& one) { return !matches_pattern(url, one.item.name); });
    return found;
  }
  // A server answers the address of a folder with a page about it, so the listing comes first. A
  // signed link is one file's.
  if (!store.lists() && url.query.empty()) {
    const auto listing = complete_listing(store, url);
    if (listing && !listing->empty()) return listed(url, *listing);
  }
  if (const auto item = ask(store, [&] { return store.stat(url); }))
    return {{{"", item->size, item->etag}, url, ""}};
  return store.lists() ? find_in_folder(store, url) : std::vector<Found>();
}

}  // namespace dimred::stores
