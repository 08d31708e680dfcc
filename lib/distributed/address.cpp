#include "distributed/address.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

namespace dimred::distributed {
namespace {

std::string text_of(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  const bool known =
      getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  return known ? text.data() : "";
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

/// The first address of this machine that is no loopback; empty where there is none.
std::string outer_address() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> guard(list, freeifaddrs);
  for (const auto* one = list; one != nullptr; one = one->ifa_next) {
    const bool usable = one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
                        (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (usable) return text_of(one->ifa_addr, sizeof(sockaddr_in));
  }
  return {};
}

/// This machine's address on the way to `host`; empty where there is no way.
std::string address_towards(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(found, freeaddrinfo);
  std::string address;
  for (const auto* info = found; info != nullptr && address.empty(); info = info->ai_next) {
    const int socket_ = ::socket(info->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_ < 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    auto* name = reinterpret_cast<sockaddr*>(&own);
    if (::connect(socket_, info->ai_addr, info->ai_addrlen) == 0 &&
        ::getsockname(socket_, name, &length) == 0)
      address = text_of(name, length);
    ::close(socket_);
  }
  return address;
}

}  // namespace

std::string store_address(const launch::RankInfo& rank_info) {
  if (rank_info.agent_store) return rank_info.address;  // torchrun serves it
  const bool same_machine =
      rank_info.rank == 0 || is_loopback(address_towards(rank_info.address, rank_info.port));
  const auto own = same_machine ? own_address(rank_info) : "";
  return own.empty() ? rank_info.address : own;
}

std::string own_address(const launch::RankInfo& rank_info) {
  auto address = address_towards(rank_info.address, rank_info.port);
  if (!is_loopback(address) || rank_info.local_size == rank_info.size) return address;
  constexpr auto elsewhere = "192.0.2.1";  // reserved for examples (RFC 5737); nothing is sent
  const auto outward = address_towards(elsewhere, rank_info.port);
  return outward.empty() || is_loopback(outward) ? outer_address() : outward;
}

}  // namespace dimred::distributed

/// In place of the C library's for this program and the libraries that it loads: addresses stay
/// numbers. PyTorch's store asks the name server for the name of every peer, for its messages
/// alone, in the one thread that serves all ranks; a slow answer holds up their start by seconds
/// (pytorch#159007).
extern "C" int getnameinfo(const sockaddr* address,
                           socklen_t address_length,
                           char* host,
                           socklen_t host_length,
                           char* service,
                           socklen_t service_length,
                           int flags) {
  static const auto library_call =
      reinterpret_cast<decltype(&getnameinfo)>(::dlsym(RTLD_NEXT, "getnameinfo"));
  if ((flags & NI_NAMEREQD) == 0) flags |= NI_NUMERICHOST;  // else a name is all that is wanted
  return library_call(address, address_length, host, host_length, service, service_length, flags);
}
