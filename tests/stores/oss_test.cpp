#include "stores/oss.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "stores/store.h"

namespace dimred::stores {
namespace {

OssBucket bucket_of(const char* url, const std::string& endpoint = "") {
  ::unsetenv("OSS_ENDPOINT");
  return oss_bucket(parse_url(url), {.endpoint = endpoint});
}

TEST(Oss, AHostNameSaysBucketEndpointAndRegion) {
  const auto* const url =
      "oss://pai-online-beijing.oss-cn-beijing-internal.aliyuncs.com/fastnn-data/flowers/";
  const auto bucket = bucket_of(url);
  EXPECT_EQ(bucket.name, "pai-online-beijing");
  EXPECT_EQ(bucket.endpoint, "oss-cn-beijing-internal.aliyuncs.com");
  EXPECT_EQ(bucket.region, "oss-cn-beijing");
  EXPECT_TRUE(bucket.in_host);
  EXPECT_EQ(whole(as_s3(parse_url(url), bucket)),
            "s3://pai-online-beijing/fastnn-data/flowers?endpoint_override="
            "oss-cn-beijing-internal.aliyuncs.com&scheme=https&region=oss-cn-beijing");
}

TEST(Oss, ABucketAloneLiesAtTheNamedEndpoint) {
  const auto bucket = bucket_of("oss://data/a", "http://127.0.0.1:9000/");
  EXPECT_EQ(bucket.name, "data");
  EXPECT_EQ(bucket.endpoint, "127.0.0.1:9000");
  EXPECT_FALSE(bucket.https);
  EXPECT_FALSE(bucket.in_host);  // a server of another make
  EXPECT_TRUE(bucket_of("oss://data/a", "oss-cn-hangzhou.aliyuncs.com").in_host);
  ::setenv("OSS_ENDPOINT", "https://oss-eu-central-1.aliyuncs.com", 1);
  EXPECT_EQ(oss_bucket(parse_url("oss://data/a"), {}).region, "oss-eu-central-1");
  ::unsetenv("OSS_ENDPOINT");
}

TEST(Oss, RefusesABucketWithoutEndpointAndAQuery) {
  EXPECT_THROW(bucket_of("oss://data/a"), StoreError);
  EXPECT_THROW(parse_url("oss://data/a?endpoint_override=b"), std::invalid_argument);
  EXPECT_THROW(parse_url("oss:///a"), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::stores
