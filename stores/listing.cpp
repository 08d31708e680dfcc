#include "stores/listing.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "stores/attempts.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::stores {

bool is_inside(const std::string& name) {
  const std::filesystem::path path(name);
  return !name.empty() && path.is_relative() && path.has_filename() &&
         std::ranges::none_of(path, [](const auto& part) { return part == ".." || part == "."; }) &&
         std::ranges::none_of(name, [](unsigned char letter) { return std::iscntrl(letter) != 0; });
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
    return StoreError(concat("[stores] ", place, " is no listing of ours: ", what), false);
  };
  Listing listing;
  try {
    const auto json = nlohmann::json::parse(text);
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

Listing read_listing(Store& store, const Url& url, const Item& item, const StoreOptions& options) {
  constexpr std::int64_t most = 256 << 20;
  if (item.size > most) throw StoreError(concat("[stores] ", shown(url), " is too long"), false);
  Listing listing;
  with_attempts(options, [&] {
    std::string text;
    store.read(url, item, 0, [&](std::span<const std::byte> bytes) {
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
    listing = parse_listing(text, shown(url));
  });
  return listing;
}

std::string digest_of_file(const std::filesystem::path& file) {
  const InputFile in(file);
  DigestStream digest;
  std::vector<std::byte> part(4 << 20);
  for (std::int64_t at = 0; at < in.size(); at += std::ssize(part)) {
    part.resize(static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(part), in.size() - at)));
    in.read(at, part);
    digest.update(part);
  }
  return digest.hex();
}

}  // namespace dimred::stores
