#include "stores/store.h"
#include "support/errors.h"

namespace dimred::stores {

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

std::unique_ptr<Store> open_store(const Url& url, const StoreOptions& options) {
  if (url.scheme == "file") return make_file_store();
  if (url.scheme == "hdfs") return make_hadoop_store(options);
  if (url.scheme == "s3" || url.scheme == "gs") return make_arrow_store(url, options);
  check(url.scheme == "http" || url.scheme == "https", "a scheme without a store");
  return make_http_store(options);
}

}  // namespace dimred::stores
