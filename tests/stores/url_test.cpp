#include "stores/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/temporary_folder.h"
#include "tests/tools/words.h"

namespace dimred::stores {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Url, HasItsParts) {
  const auto url = parse_url("s3://key:secret@bucket/a/b//?region=eu&scheme=http");
  EXPECT_EQ(url.scheme, "s3");
  EXPECT_EQ(url.user, "key:secret");
  EXPECT_EQ(url.authority, "bucket");
  EXPECT_EQ(url.path, "/a/b");
  EXPECT_EQ(url.query, "region=eu&scheme=http");
  EXPECT_EQ(whole(url), "s3://key:secret@bucket/a/b?region=eu&scheme=http");
  EXPECT_EQ(identity(url), "s3://bucket/a/b?region=eu&scheme=http");
  EXPECT_EQ(shown(url), "s3://bucket/a/b?...");
  EXPECT_EQ(last_name(url), "b");
  EXPECT_EQ(identity(parent(url)), "s3://bucket/a?region=eu&scheme=http");
  EXPECT_EQ(identity(child(url, "c d/e")), "s3://bucket/a/b/c d/e?region=eu&scheme=http");
}

TEST(Url, NamesAreCodedWhereTheSchemeCodesThem) {
  EXPECT_EQ(child(parse_url("https://h/x"), "a b%?#.h5").path, "/x/a%20b%25%3F%23.h5");
  EXPECT_EQ(decoded_path(parse_url("file:///x/a%20b%2")), "/x/a b%2");
  EXPECT_EQ(decoded_path(parse_url("hdfs://h:9/x/a%20b")), "/x/a%20b");
  EXPECT_EQ(last_name(parse_url("s3://bucket")), "bucket");
  EXPECT_EQ(child(parse_url("hdfs:///"), "a").path, "/a");
}

TEST(Url, TheLastAtSignEndsThePassword) {
  const auto url = parse_url("HTTP://me:pa@ss%20word@h:80/x");
  EXPECT_EQ(url.user, "me:pa@ss%20word");
  EXPECT_EQ(shown(url), "http://h:80/x");
  EXPECT_EQ(percent_decoded(url.user), "me:pa@ss word");
  EXPECT_EQ(parse_url("hdfs://h:9000/a@b").path, "/a@b");
  EXPECT_EQ(parse_url("http://[::1]:80/a@b").authority, "[::1]:80");
}

TEST(Url, AtSignsInAPathAreNoUser) {
  const auto url = parse_url("http://h/a@b?c@d");
  EXPECT_EQ(url.user, "");
  EXPECT_EQ(url.path, "/a@b");
}

TEST(Url, HostsAndPortsThatCanBe) {
  for (const auto& host : words("h h:1 h:65535 h: 127.0.0.1:80 a_b-c.d [::1] [::1]:9 "
                                "[fe80::1%25eth0]:80 [::ffff:1.2.3.4]")) {
    for (const auto* scheme : {"http", "https", "hdfs"})
      EXPECT_EQ(parse_url(std::string(scheme) + "://" + host + "/x").authority, host);
  }
  EXPECT_EQ(parse_url("http://me:secret@[::1]:9/x").authority, "[::1]:9");
}

struct Wrong {
  const char* text;
  const char* said;
};
class WrongUrl : public testing::TestWithParam<Wrong> {};
TEST_P(WrongUrl, IsRefusedWithoutItsPassword) {
  const auto text = thrown<std::invalid_argument>([] { parse_url(GetParam().text); });
  EXPECT_THAT(text, HasSubstr(GetParam().said));
  EXPECT_THAT(text, Not(HasSubstr("secret")));
}
INSTANTIATE_TEST_SUITE_P(
    Url,
    WrongUrl,
    testing::Values(Wrong{"s4://u:secret@bucket/x", "s4://bucket/x; did you mean s3://?"},
                    Wrong{"odps://bucket/x", "known: file:// http://"},
                    Wrong{"s3:///x", "s3:// needs a bucket, received s3:///x"},
                    Wrong{"https://u:secret@/x", "https:// needs a host"},
                    Wrong{"file://data/x", "three slashes"},
                    Wrong{"file://", "needs a path"},
                    Wrong{"file:///d/x?y", "takes no query (write a '?' in a name as %3F)"},
                    Wrong{"http://h/a\nb", "must not have control characters"},
                    Wrong{"/x", "needs scheme://"},
                    Wrong{"http://[::1:9/x", "needs a host, or host:port"},
                    Wrong{"http://u:secret@[::1:9/x", "received http://[::1:9/x"},
                    Wrong{"http://[::1]9/x", "needs a host, or host:port"},
                    Wrong{"http://[h]/x", "needs a host, or host:port"},
                    Wrong{"http://[]/x", "needs a host, or host:port"},
                    Wrong{"http://h:99999/x", "needs a host, or host:port"},
                    Wrong{"https://h:65536/x", "a port of 1 to 65535"},
                    Wrong{"https://h:99999999999999999999/x", "a port of 1 to 65535"},
                    Wrong{"http://h:0/x", "a port of 1 to 65535"},
                    Wrong{"http://h:8x/x", "a port of 1 to 65535"},
                    Wrong{"http://::1/x", "write an IPv6 address as [::1]"},
                    Wrong{"http://:80/x", "needs a host, or host:port"},
                    Wrong{"http://a b/x", "needs a host, or host:port"},
                    Wrong{"hdfs://h:99999/x", "a port of 1 to 65535"},
                    Wrong{"http://h/a b", "needs to be written as %20"},
                    Wrong{"s3://AKIA:ab/secret@bucket/x", "received s3://..."},
                    Wrong{"https://me:ab?secret@h/x", "received https://..."},
                    Wrong{"https://me:p@secret/word@h/x", "received https://..."},
                    Wrong{"https://me:12/secret@h/x", "received https://..."}));

}  // namespace
}  // namespace dimred::stores
