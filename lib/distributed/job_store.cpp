#include "distributed/job_store.h"

#include <c10/util/Logging.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "distributed/address.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::distributed {
namespace {

/// A socket that listens on this address alone; the store would listen on all of the machine's.
int listen_at(const std::string& address, const launch::RankInfo& rank_info) {
  const auto fail = [&](const std::string& why) {
    fail_environment(
        "[distributed] rank 0 cannot listen at {}:{}: {}", address, rank_info.port, why);
  };
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int answer =
      getaddrinfo(address.c_str(), std::to_string(rank_info.port).c_str(), &hints, &found);
  if (answer != 0) fail(gai_strerror(answer));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(found, freeaddrinfo);
  const int listener = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  const bool listening = listener >= 0 &&
                         ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                         ::bind(listener, found->ai_addr, found->ai_addrlen) == 0 &&
                         ::listen(listener, SOMAXCONN) == 0;
  if (listening) return listener;
  const int error = errno;
  if (listener >= 0) ::close(listener);
  fail(error == EADDRINUSE ? "the port is in use; choose another MASTER_PORT"
                           : std::strerror(error));
  return -1;
}

Store make_store(const launch::RankInfo& rank_info,
                 const std::string& address,
                 double timeout,
                 std::optional<int> listener) {
  c10d::TCPStoreOptions options;
  options.port = rank_info.port;
  options.isServer = listener.has_value();
  options.masterListenFd = listener;
  options.waitWorkers = false;
  options.timeout = in_milliseconds(timeout);
  return c10::make_intrusive<c10d::TCPStore>(address, options);
}

/// In a thread of its own, left behind when it hangs: the store's client waits for ever for the
/// answer of a stranger who listens on the port.
Store open_store(const launch::RankInfo& rank_info, double timeout, bool serve) {
  const auto address = store_address(rank_info);
  const auto listener = serve ? std::optional(listen_at(address, rank_info)) : std::nullopt;
  auto result = std::make_shared<std::promise<Store>>();
  auto ready = result->get_future();
  std::jthread([=] {
    try {
      result->set_value(make_store(rank_info, address, timeout, listener));
    } catch (...) {
      result->set_exception(std::current_exception());
    }
  }).detach();
  constexpr double patience = 2;
  std::string why = "nobody answers";
  try {
    if (ready.wait_for(in_milliseconds(timeout + patience)) == std::future_status::ready)
      return ready.get();
  } catch (const std::exception& error) {
    why = error.what();
  }
  fail_environment("[distributed] rank {} cannot reach rank 0 at {} within {} s: {}",
                   rank_info.rank,
                   rendezvous_address(rank_info),
                   timeout,
                   head_line(why));
}

}  // namespace

std::string rendezvous_address(const launch::RankInfo& rank_info) {
  return formatted("{}:{}", rank_info.address, rank_info.port);
}

Store open_job_store(const launch::RankInfo& rank_info, double timeout, bool serve) {
  c10::initLogging();  // takes TORCH_CPP_LOG_LEVEL up
  // Torchrun's store outlives its ranks and their restarts, and may serve other programs.
  const auto prefix = formatted("dimred/{}", rank_info.run_id);
  return c10::make_intrusive<c10d::PrefixStore>(prefix, open_store(rank_info, timeout, serve));
}

}  // namespace dimred::distributed
