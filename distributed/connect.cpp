#include "distributed/connect.h"

#include <arpa/inet.h>
#include <c10/util/Logging.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <random>
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
constexpr auto stopped_key = "stopped";  // by a signal: torchrun must not start it anew

milliseconds in_milliseconds(double seconds) {
  return milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string meeting_point(const launch::Place& place) {
  return concat(place.address, ':', place.port);
}

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

/// The address that the other ranks reach this machine at: the one on the way to rank 0's. Rank 0's
/// own machine may know its name as a loopback address (Debian's 127.0.1.1), which no other can
/// use: then the one on the way out, or the first there is.
std::string own_address(const launch::Place& place) {
  auto address = address_towards(place.address, place.port);
  if (!is_loopback(address) || place.local_size == place.size) return address;
  constexpr auto elsewhere = "192.0.2.1";  // reserved for examples (RFC 5737); nothing is sent
  const auto outward = address_towards(elsewhere, place.port);
  return outward.empty() || is_loopback(outward) ? outer_address() : outward;
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

/// Keys of this job. Torchrun's store outlives its ranks and their restarts.
Store keys_of(const Store& store, const launch::Place& place) {
  return c10::make_intrusive<c10d::PrefixStore>(concat("dimred/", place.run_id), store);
}

/// Keys of one part of one start of the ranks.
Store keys_of(const Store& job, const std::string& start, const char* part) {
  return c10::make_intrusive<c10d::PrefixStore>(concat(start, "/", part), job);
}

std::string hello_key(int rank) { return concat("hello", rank); }
std::string welcome_key(const std::string& name) { return concat("welcome/", name); }
std::string here_key(const std::string& start, int rank) { return concat(start, "/here", rank); }
std::string key_of(const std::string& start, const char* key) { return concat(start, '/', key); }

/// A name that no other process and no earlier start has.
std::string fresh_name() {
  std::random_device random;
  return concat(::getpid(), '-', random(), '-', random());
}

std::string text_at(c10d::Store& store, const std::string& key) {
  const auto bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

/// Rank 0's side of the meeting. Every rank says hello under a fresh name, and the answer under
/// that name is the start that rank 0 stands for. So what earlier starts left in the store is never
/// taken for a rank that has come, however torchrun's agents count their restarts.
class Meeting {
 public:
  Meeting(c10d::Store& store, const launch::Place& place)
      : store_(store), place_(place), welcomed_(static_cast<std::size_t>(place.size)) {}

  const std::string& start() const { return start_; }

  void welcome_all() {
    for (int rank = 1; rank < place_.size; ++rank) {
      if (!store_.check({hello_key(rank)})) continue;
      auto name = text_at(store_, hello_key(rank));
      auto& known = welcomed_[static_cast<std::size_t>(rank)];
      if (name == known) continue;
      store_.set(welcome_key(name), bytes_of(start_));
      known = std::move(name);
    }
  }

  /// Names the ranks that have not come; empty when all have.
  std::string missing() const {
    constexpr int named = 8;
    std::string names;
    int count = 0;
    for (int rank = 1; rank < place_.size; ++rank) {
      if (store_.check({here_key(start_, rank)})) continue;
      if (++count <= named) names += concat(names.empty() ? "" : ", ", rank);
    }
    return count > named ? concat(names, " and ", count - named, " more") : names;
  }

  std::string refusal() const {
    const auto key = key_of(start_, refusal_key);
    return store_.check({key}) ? text_at(store_, key) : "";
  }

  void say(const std::string& word) { store_.set(key_of(start_, word_key), bytes_of(word)); }

 private:
  c10d::Store& store_;
  const launch::Place& place_;
  std::string start_ = fresh_name();
  std::vector<std::string> welcomed_;
};

constexpr auto start_word = "start";

/// Why not all ranks start together; empty when they do.
std::string reason_not_to_start(Meeting& meeting, const launch::Place& place, double timeout) {
  const Stopwatch waiting;
  while (true) {
    meeting.welcome_all();
    if (auto refusal = meeting.refusal(); !refusal.empty()) return refusal;
    const auto missing = meeting.missing();
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

/// Says hello to rank 0; returns the start it answers with. Throws when it does not in time.
std::string say_hello(c10d::Store& store, const launch::Place& place, double timeout) {
  const auto name = fresh_name();
  store.set(hello_key(place.rank), bytes_of(name));
  store.wait({welcome_key(name)}, in_milliseconds(timeout));
  return text_at(store, welcome_key(name));
}

/// Rank 0 waits for all and tells them; the others wait for its word. Returns the start's name.
std::string meet(c10d::Store& store, const launch::Place& place, double timeout) {
  if (place.rank == 0) {
    Meeting meeting(store, place);
    const auto reason = reason_not_to_start(meeting, place, timeout);
    meeting.say(reason.empty() ? start_word : reason);
    if (reason.empty()) return meeting.start();
    std::this_thread::sleep_for(milliseconds(500));  // its store must live until all have read
    throw std::runtime_error(reason);
  }
  constexpr double patience = 5;  // the word comes after rank 0's own time is up
  std::string start;
  try {
    start = say_hello(store, place, timeout + patience);
    store.set(here_key(start, place.rank), bytes_of("1"));
    store.wait({key_of(start, word_key)}, in_milliseconds(timeout + patience));
  } catch (const std::exception&) {
    throw std::runtime_error(
        concat("[", where, "] rank 0 at ", meeting_point(place), " gave no word in time"));
  }
  const auto word = text_at(store, key_of(start, word_key));
  if (word != start_word) throw SaidByRank0(word);
  return start;
}

std::shared_ptr<Communicator> make_communicator(const Store& job,
                                                const std::string& start,
                                                const launch::Place& place,
                                                const launch::ConnectOptions& options,
                                                bool on_gpu) {
  const GroupPlace group{.store = keys_of(job, start, "gloo"),
                         .rank = place.rank,
                         .size = place.size,
                         .timeout = options.collective_timeout,
                         .address = own_address(place)};
  Backends backends{.host = make_gloo(group)};
  if (on_gpu && options.backend != launch::Backend::gloo) {
    auto device_group = group;
    device_group.store = keys_of(job, start, "nccl");
    backends.device = make_nccl(device_group);
  }
  require_environment(options.backend != launch::Backend::nccl || backends.device,
                      where,
                      "backend = nccl needs a GPU and a build with NCCL");
  return process_group(std::move(backends), place.rank, place.size);
}

/// Where the store is gone there is nobody to agree with on who says so: one rank a machine does.
bool speaks_of_the_store(const launch::Place& place) {
  const bool machine_of_rank_0 = place.rank == place.local_rank;
  return place.local_rank == (machine_of_rank_0 ? 1 : 0);
}

}  // namespace

Ranks alone(const launch::Place& place) {
  return {.place = place, .communicator = single_rank(), .watch = nullptr};
}

Ranks connect(const launch::Place& place,
              const launch::ConnectOptions& options,
              bool on_gpu,
              const std::function<void(const Failure&)>& on_failure) {
  auto ranks = alone(place);
  if (place.size == 1) return ranks;
  const auto timeout = options.rendezvous_timeout;
  const bool serve = place.rank == 0 && !place.agent_store;
  c10::initLogging();  // takes TORCH_CPP_LOG_LEVEL up
  const auto job = keys_of(open_store(place, timeout, serve), place);
  const auto start = meet(*job, place, timeout);

  // Before the backends, whose making waits for every rank. A connection of its own: a request that
  // waits must not hold up a sign of life.
  const auto own_job = keys_of(open_store(place, timeout, false), place);
  ranks.watch = std::make_unique<Watch>(keys_of(own_job, start, "watch"),
                                        WatchOptions{.rank = place.rank,
                                                     .size = place.size,
                                                     .timeout = options.heartbeat_timeout,
                                                     .speaks_of_store = speaks_of_the_store(place),
                                                     .agent_store = place.agent_store},
                                        on_failure);

  try {
    ranks.communicator = make_communicator(job, start, place, options, on_gpu);
  } catch (const std::exception& error) {
    constexpr double rounds = 6;  // of the watch: when a rank has died meanwhile, it ends us
    ranks.watch->suspect();
    ranks.watch->failure(rounds);
    const auto standing =
        ranks.watch->report({.rank = place.rank, .text = error.what(), .speaker = place.rank});
    if (standing.speaker != place.rank) throw SaidByRank0(standing.text);
    throw;
  }
  return ranks;
}

void refuse(const launch::Place& place, const std::string& reason) {
  constexpr double patience = 3;
  c10::initLogging();
  const auto text = concat("rank ", place.rank, ": ", reason);
  try {
    const bool serve = place.rank == 0 && !place.agent_store;
    const auto job = keys_of(open_store(place, patience, serve), place);
    if (place.rank != 0) {
      const auto start = say_hello(*job, place, patience);
      job->set(key_of(start, refusal_key), bytes_of(text));
      job->set(here_key(start, place.rank), bytes_of("1"));
      return;
    }
    Meeting meeting(*job, place);
    meeting.say(text);
    for (const Stopwatch here; here.seconds() < patience && !meeting.missing().empty();) {
      meeting.welcome_all();
      std::this_thread::sleep_for(milliseconds(50));
    }
  } catch (const std::exception&) {  // rank 0 is not there: it has the same to say
  }
}

void mark_stopped(const launch::Place& place) {
  if (!place.agent_store) return;
  constexpr double patience = 3;
  try {
    keys_of(open_store(place, patience, false), place)->set(stopped_key, bytes_of("1"));
  } catch (const std::exception&) {  // torchrun is going too, and will not start it anew
  }
}

bool was_stopped(const launch::Place& place) {
  if (!place.agent_store) return false;
  constexpr double patience = 3;
  return keys_of(open_store(place, patience, false), place)->check({stopped_key});
}

void Ranks::leave() {
  if (!watch) return;
  communicator->barrier();
  watch->leave();
  communicator->barrier();  // rank 0's store outlives everybody's last request
  watch.reset();
}

}  // namespace dimred::distributed
