#include "distributed/connect.h"

#include <arpa/inet.h>
#include <c10/util/Logging.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "distributed/process_group.h"
#include "support/errors.h"
#include "support/stopwatch.h"

namespace dimred::distributed {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;
using std::chrono::milliseconds;

constexpr auto where = "distributed";
constexpr auto word_key = "word";        // of rank 0: start, or why not
constexpr auto refusal_key = "refusal";  // of a rank that cannot start

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

Store make_store(const launch::Place& place, double timeout, bool serve) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(place.port);
  options.isServer = serve;
  options.waitWorkers = false;
  options.timeout = in_milliseconds(timeout);
  return c10::make_intrusive<c10d::TCPStore>(place.address, options);
}

/// In a thread of its own, left behind when it hangs: the store's client waits for ever for the
/// answer of a stranger who listens on the port.
Store open_store(const launch::Place& place, double timeout, bool serve) {
  auto result = std::make_shared<std::promise<Store>>();
  auto ready = result->get_future();
  std::thread([=] {
    try {
      result->set_value(make_store(place, timeout, serve));
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
  require_environment(why.find("EADDRINUSE") == std::string::npos,
                      where,
                      "rank 0 cannot serve ",
                      meeting_point(place),
                      ": the port is in use; choose another MASTER_PORT");
  throw std::runtime_error(concat("[",
                                  where,
                                  "] rank ",
                                  place.rank,
                                  " cannot reach rank 0 at ",
                                  meeting_point(place),
                                  " within ",
                                  timeout,
                                  " s: ",
                                  why.substr(0, why.find('\n'))));
}

/// Torchrun's store outlives its ranks: each start of them has its own keys.
Store keys_of(const Store& store, const launch::Place& place, const char* part) {
  const auto prefix = concat("dimred/", place.run_id, "/", place.restarts, "/", part);
  return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
}

std::string arrival_key(int rank) { return concat("here", rank); }

/// Names the ranks that have not come; empty when all have.
std::string missing_ranks(c10d::Store& store, int size) {
  constexpr int named = 8;
  std::string missing;
  int count = 0;
  for (int rank = 0; rank < size; ++rank) {
    if (store.check({arrival_key(rank)})) continue;
    if (++count <= named) missing += concat(missing.empty() ? "" : ", ", rank);
  }
  return count > named ? concat(missing, " and ", count - named, " more") : missing;
}

std::string text_at(c10d::Store& store, const char* key) {
  const auto bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

/// Why not all ranks start together; empty when they do.
std::string reason_not_to_start(c10d::Store& store, const launch::Place& place, double timeout) {
  const Stopwatch waiting;
  while (true) {
    if (store.check({refusal_key})) return text_at(store, refusal_key);
    const auto missing = missing_ranks(store, place.size);
    if (missing.empty()) return {};
    if (waiting.seconds() > timeout) {
      return concat("[distributed] of ",
                    place.size,
                    " ranks these have not come to ",
                    meeting_point(place),
                    " within ",
                    timeout,
                    " s: ",
                    missing);
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
}

/// Rank 0 waits for all and tells them; the others wait for its word.
void meet(c10d::Store& store, const launch::Place& place, double timeout) {
  constexpr auto start = "start";
  store.set(arrival_key(place.rank), bytes_of("1"));
  if (place.rank == 0) {
    const auto reason = reason_not_to_start(store, place, timeout);
    store.set(word_key, bytes_of(reason.empty() ? start : reason));
    if (reason.empty()) return;
    std::this_thread::sleep_for(milliseconds(500));  // its store must live until all have read
    throw std::runtime_error(reason);
  }
  constexpr double patience = 5;  // the word comes after rank 0's own time is up
  try {
    store.wait({word_key}, in_milliseconds(timeout + patience));
  } catch (const std::exception&) {
    throw std::runtime_error(
        concat("[", where, "] rank 0 at ", meeting_point(place), " gave no word in time"));
  }
  const auto word = text_at(store, word_key);
  if (word != start) throw SaidByRank0(word);
}

std::shared_ptr<Communicator> make_communicator(const Store& store,
                                                const launch::Place& place,
                                                const launch::ConnectOptions& options,
                                                bool on_gpu) {
  const GroupPlace group{.store = keys_of(store, place, "gloo"),
                         .rank = place.rank,
                         .size = place.size,
                         .timeout = options.collective_timeout,
                         .address = own_address(place)};
  Backends backends{.host = make_gloo(group)};
  if (on_gpu && options.backend != launch::Backend::gloo) {
    auto device_group = group;
    device_group.store = keys_of(store, place, "nccl");
    backends.device = make_nccl(device_group);
  }
  require_environment(options.backend != launch::Backend::nccl || backends.device,
                      where,
                      "backend = nccl needs a GPU and a build with NCCL");
  return process_group(std::move(backends), place.rank, place.size);
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
  c10::initLogging();  // takes TORCH_CPP_LOG_LEVEL up
  const auto store = open_store(place, timeout, serve);
  meet(*keys_of(store, place, "meet"), place, timeout);

  // Before the backends, whose making waits for every rank. A connection of its own: a request that
  // waits must not hold up a sign of life.
  ranks.watch = std::make_unique<Watch>(keys_of(open_store(place, timeout, false), place, "watch"),
                                        place.rank,
                                        place.size,
                                        options.heartbeat_timeout,
                                        on_failure);

  try {
    ranks.communicator = make_communicator(store, place, options, on_gpu);
  } catch (const std::exception&) {
    constexpr double rounds = 6;  // of the watch: when a rank has died meanwhile, it ends us
    ranks.watch->suspect();
    ranks.watch->failure(rounds);
    throw;
  }
  return ranks;
}

void refuse(const launch::Place& place, const std::string& reason) {
  constexpr double patience = 3;
  c10::initLogging();
  try {
    const auto keys = keys_of(open_store(place, patience, false), place, "meet");
    keys->set(refusal_key, bytes_of(concat("rank ", place.rank, ": ", reason)));
  } catch (const std::exception&) {  // rank 0 is not there: it has the same to say
  }
}

void Ranks::leave() {
  if (!watch) return;
  communicator->barrier();
  watch->leave();
  communicator->barrier();  // rank 0's store outlives everybody's last request
  watch.reset();
}

}  // namespace dimred::distributed
