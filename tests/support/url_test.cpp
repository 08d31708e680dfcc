#include "support/url.h"

#include <gtest/gtest.h>

namespace dimred {
namespace {

TEST(Url, IsKnownByItsSchemeAndShownWithoutItsPassword) {
  for (const auto* text : {"s3://b/x", "https://u@h/", "file:///x"})
    EXPECT_TRUE(looks_like_url(text)) << text;
  for (const auto* text : {"", "x", "/a://b", "c:/x", "a b://x", "a://b", "://x", "1s://x"})
    EXPECT_FALSE(looks_like_url(text)) << text;
  EXPECT_EQ(without_credentials("https://u:p@h/a%40b?sign=1"), "https://h/a%40b");
  EXPECT_EQ(without_credentials("s3://u:p@b/x?region=eu"), "s3://b/x?region=eu");
  EXPECT_EQ(without_credentials("plain/u:p@x?y"), "plain/u:p@x?y");
  EXPECT_EQ(without_credentials("HTTPS://h/x?X-Amz-Signature=1"), "https://h/x");
  EXPECT_EQ(without_credentials("http://u:p@q@h/a"), "http://h/a");
  EXPECT_EQ(without_credentials("http://h/a@b"), "http://h/a@b");
  EXPECT_EQ(without_credentials("s3://AKIA:a/b@bucket/x"), "s3://...");
  EXPECT_EQ(without_credentials("https://u:a?b@h/x"), "https://...");
  EXPECT_EQ(without_credentials("https://u:p@ss/word@h/x"), "https://...");
  EXPECT_EQ(without_credentials("https://u:12/ss@h/x"), "https://...");
  EXPECT_EQ(without_credentials("https://u:12?s@h/x"), "https://...");
  EXPECT_EQ(without_credentials("hdfs://h:9000/a@b"), "hdfs://h:9000/a@b");
}

}  // namespace
}  // namespace dimred
