#include "stores/proxy.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace dimred::stores {
namespace {

/// The proxy with these variables of the environment alone.
std::string proxy_with(const std::map<std::string, std::string>& variables,
                       const std::string& scheme,
                       const std::string& host) {
  for (const auto* const name : {"http_proxy",
                                 "HTTP_PROXY",
                                 "https_proxy",
                                 "HTTPS_PROXY",
                                 "all_proxy",
                                 "ALL_PROXY",
                                 "no_proxy",
                                 "NO_PROXY"})
    ::unsetenv(name);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  return proxy_of(scheme, host);
}

TEST(Proxy, IsTheOneThatTheEnvironmentNames) {
  EXPECT_EQ(proxy_with({}, "https", "amazonaws.com"), "");
  EXPECT_EQ(proxy_with({{"https_proxy", "http://p:3128"}}, "https", "a.com"), "http://p:3128");
  EXPECT_EQ(proxy_with({{"HTTPS_PROXY", "p:3128"}}, "https", "a.com"), "http://p:3128");
  EXPECT_EQ(proxy_with({{"https_proxy", "http://p:3128"}}, "http", "a.com"), "");
  EXPECT_EQ(proxy_with({{"HTTP_PROXY", "http://p:3128"}}, "http", "a.com"), "");  // CGI sets it
  EXPECT_EQ(proxy_with({{"ALL_PROXY", "http://p:1"}}, "http", "a.com"), "http://p:1");
  EXPECT_EQ(proxy_with({{"ALL_PROXY", "socks5://p:1"}}, "http", "a.com"), "");
  EXPECT_EQ(proxy_with({{"http_proxy", "p:1"}}, "https", "http://a.com:9000/x"), "http://p:1");
}

TEST(Proxy, LeavesOutHostsAndWhatIsInTheirDomains) {
  const auto left = [](const std::string& list, const std::string& host) {
    return proxy_with({{"https_proxy", "http://p:1"}, {"no_proxy", list}}, "https", host).empty();
  };
  EXPECT_TRUE(left("localhost, minio.local", "minio.local:9000"));
  EXPECT_TRUE(left(".local", "minio.local:9000"));
  EXPECT_TRUE(left("Minio.Local", "a.minio.local"));
  EXPECT_TRUE(left("*", "a.com"));
  EXPECT_TRUE(left("127.0.0.1,localhost", "http://127.0.0.1:9000"));
  EXPECT_TRUE(left("127.0.0.1,localhost", "http://127.0.0.1/path"));
  EXPECT_FALSE(left("local", "notlocal"));
  EXPECT_FALSE(left("minio.local", "other.local:9000"));
}

}  // namespace
}  // namespace dimred::stores
