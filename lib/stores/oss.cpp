#include "stores/oss.h"

#include "stores/store.h"
#include "support/text.h"

namespace dimred::stores {
namespace {

constexpr std::string_view plain = "http://", secured = "https://";

/// Returns the option's or the environment's host without its scheme; sets `https` to false for
/// http.
std::string named_endpoint(const StoreOptions& options, bool& https) {
  auto endpoint = options.endpoint.empty() ? environment_text("OSS_ENDPOINT") : options.endpoint;
  https = !endpoint.starts_with(plain);
  if (!https) endpoint.erase(0, plain.size());
  if (endpoint.starts_with(secured)) endpoint.erase(0, secured.size());
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint;
}

/// "oss-cn-beijing" of oss-cn-beijing-internal.aliyuncs.com.
std::string region_of(const std::string& endpoint) {
  auto label = endpoint.substr(0, endpoint.find('.'));
  constexpr std::string_view inside = "-internal";
  if (label.ends_with(inside)) label.resize(label.size() - inside.size());
  return label.starts_with("oss-") ? label : "";
}

}  // namespace

std::string oss_name(const Url& url) {
  return url.authority.substr(0, url.authority.find_first_of(".:"));
}

OssBucket oss_bucket(const Url& url, const StoreOptions& options) {
  OssBucket bucket{.name = oss_name(url)};
  const auto named = named_endpoint(options, bucket.https);
  if (bucket.name.size() < url.authority.size()) {
    bucket.endpoint = url.authority.substr(bucket.name.size() + 1);
    if (named.empty() || named != bucket.endpoint) bucket.https = true;
  } else {
    bucket.endpoint = named;
    bucket.in_host = bucket.endpoint.find(".aliyuncs.com") != std::string::npos;
  }
  if (bucket.endpoint.empty())
    throw StoreError(
        "cannot use {}: needs oss://BUCKET.oss-cn-REGION.aliyuncs.com/..., --store_endpoint or "
        "$OSS_ENDPOINT",
        url);
  bucket.region = region_of(bucket.endpoint);
  return bucket;
}

Url as_s3(const Url& url, const OssBucket& bucket) {
  auto query =
      formatted("endpoint_override={}&scheme={}", bucket.endpoint, bucket.https ? "https" : "http");
  if (!bucket.region.empty()) query += "&region=" + bucket.region;
  return {"s3", url.user, bucket.name, url.path, query};
}

}  // namespace dimred::stores
