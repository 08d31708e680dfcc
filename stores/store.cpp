#include "stores/store.h"

// What a store does unless it has something better; also in the library of Arrow's.
namespace dimred::stores {

void Store::require_name(const Url&) const {}

void Store::put_all(const std::vector<Put>& files) {
  for (const auto& file : files) put(file.local, file.url);
}

void Store::remove_all(const std::vector<Url>& urls) {
  for (const auto& url : urls) remove(url);
}

void Store::read_all(const std::vector<Url>& urls,
                     const std::vector<std::int64_t>& sizes,
                     const EachSink& sink) {
  for (std::size_t i = 0; i < urls.size(); ++i) {
    read(urls[i], {"", sizes[i], ""}, 0, [&](std::span<const std::byte> bytes) { sink(i, bytes); });
  }
}

}  // namespace dimred::stores
