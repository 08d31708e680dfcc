#pragma once

#include <map>
#include <string>

#include "stores/store.h"

namespace dimred::stores {

/// Written last: the folder is complete, and these are its files.
inline constexpr auto complete_name = "_COMPLETE";
/// Written first, removed last: what an upload that goes on means to leave.
inline constexpr auto incomplete_name = "_INCOMPLETE";

using Sizes = std::map<std::string, std::int64_t>;
/// The sizes of a folder's objects, by name.
Sizes sizes_of(const std::vector<Item>& items);

/// A listing's second name, where put() does not replace in one step: holds meanwhile.
std::string second_name(const std::string& name);

/// The listing `name` among a folder's objects, or its second.
std::optional<Item> listing_among(const std::vector<Item>& items, const std::string& name);

struct ListedFile {
  std::int64_t size = 0;
  std::string digest;  // XXH3-128 of its bytes
  std::string stored;  // the object's name; another than the file's for a moment while it changes
  bool operator==(const ListedFile&) const = default;
};
/// By the file's name below the folder.
using Listing = std::map<std::string, ListedFile>;

std::string listing_text(const Listing& listing);

/// Throws Changed naming `place` for a text that is not such a listing, or that names a file
/// outside of its folder.
Listing parse_listing(const std::string& text, const std::string& place);

/// The listing that lies at `url` as `item`; nullopt for a text that is nothing like one, as a
/// server's page. Throws Changed when it is damaged, or another by now.
std::optional<Listing> read_if_listing(Store& store, const Url& url, const Item& item);

/// The listing of a complete folder. nullopt for a folder without one; a server may also answer its
/// address with a refusal, or a page of its own. Throws as above.
std::optional<Listing> complete_listing(Store& store, const Url& folder);

/// Reads a listing as above; any other text counts as damaged.
Listing read_listing(Store& store, const Url& url, const Item& item);

/// Whether a name stays below the folder that it is joined to.
bool is_inside(const std::string& name);

/// The remote files: those below a folder, or the one file with an empty name; empty for nothing.
std::vector<Found> find(Store& store, const Url& url);

/// Lists all files of a folder as above, if it can be listed.
std::vector<Found> find_in_folder(Store& store, const Url& folder);

/// Returns whether that is the URL's one file.
bool is_single(const std::vector<Found>& found);

/// Whether the URL's last part is a pattern.
bool is_pattern(const Url& url);

/// Returns whether that pattern matches it.
bool matches_pattern(const Url& url, const std::string& name);

}  // namespace dimred::stores
