#include "distributed/connect.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "distributed/process_group.h"
#include "support/errors.h"

namespace dimred::distributed {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;
using std::chrono::milliseconds;

constexpr auto where = "distributed";
constexpr auto start_key = "start";

milliseconds in_milliseconds(double seconds) {
  return milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string meeting_point(const launch::Place& place) {
  return concat(place.address, ':', place.port);
}

/// This machine's address on the way to rank 0's, which is the one the others can reach too; a
/// host's own name often resolves to a loopback address. Empty where there is no way.
std::string own_address(const launch::Place& place) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const auto port = std::to_string(place.port);
  if (getaddrinfo(place.address.c_str(), port.c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(found, freeaddrinfo);
  std::string address;
  for (const auto* info = found; info != nullptr && address.empty(); info = info->ai_next) {
    const int socket_ = ::socket(info->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_ < 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    auto* name = reinterpret_cast<sockaddr*>(&own);
    std::array<char, NI_MAXHOST> text{};
    if (::connect(socket_, info->ai_addr, info->ai_addrlen) == 0 &&
        ::getsockname(socket_, name, &length) == 0 &&
        getnameinfo(name, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0)
      address = text.data();
    ::close(socket_);
  }
  return address;
}

Store open_store(const launch::Place& place, double timeout, bool serve) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(place.port);
  options.isServer = serve;
  options.waitWorkers = false;
  options.timeout = in_milliseconds(timeout);
  try {
    return c10::make_intrusive<c10d::TCPStore>(place.address, options);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    require_environment(text.find("EADDRINUSE") == std::string::npos,
                        where,
                        "rank 0 cannot serve ",
                        meeting_point(place),
                        ": the port is in use; choose another MASTER_PORT");
    throw std::runtime_error(concat("[",
                                    where,
                                    "] rank ",
                                    place.rank,
                                    " cannot reach ",
                                    meeting_point(place),
                                    " within ",
                                    timeout,
                                    " s: ",
                                    text.substr(0, text.find('\n'))));
  }
}

std::string arrival_key(int rank) { return "here" + std::to_string(rank); }

/// Names the ranks that have not come; empty when all have.
std::string missing_ranks(c10d::Store& store, int size) {
  std::string missing;
  int count = 0;
  for (int rank = 0; rank < size; ++rank) {
    if (store.check({arrival_key(rank)})) continue;
    if (++count <= 8) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  return count > 8 ? concat(missing, " and ", count - 8, " more") : missing;
}

/// Rank 0 waits for all and tells them; the others wait for its word.
void meet(c10d::Store& store, const launch::Place& place, double timeout) {
  store.set(arrival_key(place.rank), bytes_of("1"));
  if (place.rank != 0) {
    constexpr double patience = 5;  // the word comes after rank 0's own time is up
    try {
      store.wait({start_key}, in_milliseconds(timeout + patience));
    } catch (const std::exception&) {
      throw std::runtime_error(
          concat("[", where, "] rank 0 at ", meeting_point(place), " gave no word in time"));
    }
    const auto word = store.get(start_key);
    require_environment(word.size() == 1, where, std::string(word.begin(), word.end()));
    return;
  }
  std::vector<std::string> keys;
  for (int rank = 0; rank < place.size; ++rank) keys.push_back(arrival_key(rank));
  try {
    store.wait(keys, in_milliseconds(timeout));
  } catch (const std::exception&) {
    const auto text = concat("of ",
                             place.size,
                             " ranks these have not come to ",
                             meeting_point(place),
                             " within ",
                             timeout,
                             " s: ",
                             missing_ranks(store, place.size));
    store.set(start_key, bytes_of(text));
    throw std::runtime_error(concat("[", where, "] ", text));
  }
  store.set(start_key, bytes_of("1"));
}

}  // namespace

Ranks alone() { return {.place = {}, .communicator = single_rank(), .watch = nullptr}; }

Ranks connect(const launch::Place& place,
              const launch::ConnectOptions& options,
              bool on_gpu,
              const std::function<void(const Failure&)>& on_failure) {
  auto ranks = alone();
  ranks.place = place;
  if (place.size == 1) return ranks;
  const auto timeout = options.rendezvous_timeout;
  const bool serve = place.rank == 0 && !place.agent_store;
  // Torchrun's store outlives its ranks: each start of them has its own keys.
  const auto prefix = concat("dimred/", place.run_id, "/", place.restarts);
  const auto prefixed = [&](const Store& store, const char* part) {
    return c10::make_intrusive<c10d::PrefixStore>(prefix + part, store);
  };
  const auto store = open_store(place, timeout, serve);
  meet(*prefixed(store, "/meet"), place, timeout);

  const GroupPlace group{.store = prefixed(store, "/gloo"),
                         .rank = place.rank,
                         .size = place.size,
                         .timeout = options.collective_timeout,
                         .address = own_address(place)};
  Backends backends{.host = make_gloo(group)};
  if (on_gpu && options.backend != launch::Backend::gloo) {
    auto device_group = group;
    device_group.store = prefixed(store, "/nccl");
    backends.device = make_nccl(device_group);
  }
  require_environment(options.backend != launch::Backend::nccl || backends.device,
                      where,
                      "backend = nccl needs a GPU and a build with NCCL");
  ranks.communicator = process_group(std::move(backends), place.rank, place.size);
  // Its own connection: a request that waits must not hold up a sign of life.
  ranks.watch = std::make_unique<Watch>(prefixed(open_store(place, timeout, false), "/watch"),
                                        place.rank,
                                        place.size,
                                        options.heartbeat_timeout,
                                        on_failure);
  return ranks;
}

void Ranks::leave() {
  if (!watch) return;
  communicator->barrier();
  watch->leave();
  communicator->barrier();  // rank 0's store outlives everybody's last request
  watch.reset();
}

}  // namespace dimred::distributed
