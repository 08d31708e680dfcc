#pragma once

#include <string>

#include "stores/options.h"
#include "stores/url.h"

// Alibaba's object store, which FastNN's files name, through its S3-compatible interface.
namespace dimred::stores {

/// The place of a bucket of oss://. Its store wants the bucket in the host name; others that speak
/// S3 may want it in the path.
struct OssBucket {
  std::string name;
  std::string endpoint;  // host, or host:port
  std::string region;    // "oss-cn-beijing"; empty where the endpoint does not say it
  bool https = true;
  bool in_host = true;
};

/// The bucket's name alone.
std::string oss_name(const Url& url);

/// The bucket of oss://BUCKET.oss-cn-REGION.aliyuncs.com/... or, where the URL names no host, of
/// oss://BUCKET/... at options.endpoint, else $OSS_ENDPOINT. Throws StoreError where none of them
/// says an endpoint.
OssBucket oss_bucket(const Url& url, const StoreOptions& options);

/// The bucket's URL as one of s3://.
Url as_s3(const Url& url, const OssBucket& bucket);

}  // namespace dimred::stores
