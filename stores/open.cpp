#include "stores/store.h"
#include "support/errors.h"

namespace dimred::stores {

std::unique_ptr<Store> open_store(const Url& url, const StoreOptions& options) {
  if (url.scheme == "file") return make_file_store(options);
  if (url.scheme == "hdfs") return make_hadoop_store(options);
  if (url.scheme == "s3" || url.scheme == "gs") return make_arrow_store(url, options);
  check(url.scheme == "http" || url.scheme == "https", "a scheme without a store");
  return make_http_store(options);
}

}  // namespace dimred::stores
