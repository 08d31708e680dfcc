#pragma once

#include <string>

namespace dimred::stores {

/// The http(s) proxy that the environment names for requests of `scheme` (http or https) to
/// `endpoint`: a host, which may have a port, or a URL, whose scheme then counts; empty: none. As
/// libcurl reads it: https_proxy or HTTPS_PROXY, http_proxy in lower case alone, else all_proxy or
/// ALL_PROXY; none for hosts in no_proxy or NO_PROXY ("*": for all), which names hosts and
/// domains, not networks.
std::string proxy_of(std::string scheme, std::string endpoint);

}  // namespace dimred::stores
