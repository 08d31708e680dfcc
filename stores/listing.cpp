#include "stores/listing.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "stores/attempts.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"

namespace dimred::stores {

namespace {

constexpr std::size_t largest_listing = 256 << 20;

std::string no_listing(const std::string& place) {
  return formatted("[stores] {} is no listing of ours", place);
}

/// A file's four values and names take six times their text.
nlohmann::json json_of(const std::string& text, const std::string& place) {
  const JsonLimits usual;
  try {
    return parse_json(
        text,
        no_listing(place),
        {.bytes = largest_listing, .depth = 3, .memory = usual.memory + 6 * text.size()});
  } catch (const std::runtime_error& error) {
    throw Changed(error.what());
  }
}

}  // namespace

bool is_inside(const std::string& name) {
  const std::filesystem::path path(name);
  return !name.empty() && path.is_relative() && path.has_filename() &&
         std::ranges::none_of(path, [](const auto& part) { return part == ".." || part == "."; }) &&
         std::ranges::none_of(name, [](unsigned char letter) { return std::iscntrl(letter) != 0; });
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
  nlohmann::json files = nlohmann::json::object();
  for (const auto& [name, file] : listing) {
    files[name] = {{"size", file.size}, {"xxh3_128", file.digest}};
    if (file.stored != name) files[name]["stored"] = file.stored;
  }
  return nlohmann::json{{"format", "dimred listing 1"}, {"files", files}}.dump(1) + "\n";
}

Listing parse_listing(const std::string& text, const std::string& place) {
  const auto broken = [&](const std::string& what) {
    return Changed(formatted("{}: {}", no_listing(place), what));
  };
  const auto json = json_of(text, place);
  Listing listing;
  try {
    if (json.at("format") != "dimred listing 1") throw broken("another format");
    for (const auto& [name, file] : json.at("files").items()) {
      ListedFile listed{file.at("size").get<std::int64_t>(),
                        file.at("xxh3_128").get<std::string>(),
                        file.value("stored", name)};
      if (!is_inside(name) || !is_inside(listed.stored))
        throw broken("a name outside of its folder");
      if (listed.size < 0 || listed.digest.size() != 32) throw broken("a size or digest");
      listing.emplace(name, std::move(listed));
    }
  } catch (const nlohmann::json::exception& error) {
    throw broken(error.what());
  }
  return listing;
}

std::optional<Listing> read_if_listing(Store& store,
                                       const Url& url,
                                       const Item& item,
                                       const StoreOptions& options) {
  if (std::cmp_greater(item.size, largest_listing)) return {};
  std::string text;
  with_attempts(options, [&] {
    text.clear();
    store.read(url, item, 0, [&](std::span<const std::byte> bytes) {
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
  });
  if (!text.starts_with('{')) return {};
  return parse_listing(text, shown(url));
}

Listing read_listing(Store& store, const Url& url, const Item& item, const StoreOptions& options) {
  auto listing = read_if_listing(store, url, item, options);
  if (!listing) throw Changed(no_listing(shown(url)));
  return std::move(*listing);
}

std::string digest_of_file(const std::filesystem::path& file) {
  const InputFile in(file);
  DigestStream digest;
  std::vector<std::byte> part(std::min<std::int64_t>(4 << 20, in.size()));
  for (std::int64_t at = 0; at < in.size(); at += std::ssize(part)) {
    part.resize(static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(part), in.size() - at)));
    in.read(at, part);
    digest.update(part);
  }
  return digest.hex();
}

}  // namespace dimred::stores
