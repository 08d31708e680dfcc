#pragma once

#include <map>
#include <string>

#include "stores/store.h"

namespace dimred::stores {

/// Written last: the folder is complete, and these are its files.
inline constexpr auto complete_name = "_COMPLETE";
/// Written first, removed last: what an upload that goes on means to leave.
inline constexpr auto incomplete_name = "_INCOMPLETE";

/// A listing's second name, where put() does not replace in one step: holds meanwhile.
std::string second_name(const std::string& name);

/// The listing `name` among a folder's objects, or its second.
std::optional<Item> listing_among(const std::vector<Item>& items, const std::string& name);

struct ListedFile {
  std::int64_t size = 0;
  std::string digest;  // XXH3-128 of its bytes
  std::string stored;  // the object's name; another than the file's for a moment while it changes
};
/// By the file's name below the folder.
using Listing = std::map<std::string, ListedFile>;

std::string listing_text(const Listing& listing);

/// Throws Changed naming `place` for a text that is not such a listing, or that names a file
/// outside of its folder.
Listing parse_listing(const std::string& text, const std::string& place);

/// The listing that lies at `url` as `item`; nullopt for a text that is nothing like one, as a
/// server's page. Throws Changed when it is damaged, or another by now.
std::optional<Listing> read_if_listing(Store& store,
                                       const Url& url,
                                       const Item& item,
                                       const StoreOptions& options);

/// The same, where nothing else can be.
Listing read_listing(Store& store, const Url& url, const Item& item, const StoreOptions& options);

/// Whether a name stays below the folder that it is joined to.
bool is_inside(const std::string& name);

/// XXH3-128 of a file's bytes.
std::string digest_of_file(const std::filesystem::path& file);

}  // namespace dimred::stores
