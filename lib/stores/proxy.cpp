#include "stores/proxy.h"

#include <cstdlib>
#include <initializer_list>
#include <sstream>

#include "support/text.h"

namespace dimred::stores {
namespace {

/// The first of these variables that is set.
std::string variable(std::initializer_list<const char*> names) {
  for (const auto* const name : names)
    if (const auto* const value = std::getenv(name); value != nullptr && *value != 0) return value;
  return {};
}

bool is_left_out(const std::string& host) {
  auto list = variable({"no_proxy", "NO_PROXY"});
  for (auto& letter : list)
    if (letter == ',') letter = ' ';
  std::istringstream words(lower_case(list));
  const auto name = "." + lower_case(host.substr(0, host.rfind(':')));
  for (std::string word; words >> word;) {
    if (word == "*") return true;
    if (name.ends_with(word.starts_with('.') ? word : "." + word)) return true;
  }
  return false;
}

}  // namespace

std::string proxy_of(std::string scheme, std::string endpoint) {
  if (const auto mark = endpoint.find("://"); mark != endpoint.npos) {
    scheme = endpoint.substr(0, mark);
    endpoint.erase(0, mark + 3);
  }
  if (is_left_out(endpoint.substr(0, endpoint.find('/')))) return {};
  auto proxy = scheme == "http"
                   ? variable({"http_proxy", "all_proxy", "ALL_PROXY"})
                   : variable({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"});
  if (!proxy.empty() && proxy.find("://") == proxy.npos) proxy = "http://" + proxy;
  return proxy.starts_with("http") ? proxy : "";  // not socks5://
}

}  // namespace dimred::stores
