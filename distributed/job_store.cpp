#include "distributed/job_store.h"

#include <c10/util/Logging.h>

#include <chrono>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "support/errors.h"

namespace dimred::distributed {
namespace {

constexpr auto where = "distributed";

std::chrono::milliseconds in_milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
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

}  // namespace

std::string meeting_point(const launch::Place& place) {
  return concat(place.address, ':', place.port);
}

Store open_job_store(const launch::Place& place, double timeout, bool serve) {
  c10::initLogging();  // takes TORCH_CPP_LOG_LEVEL up
  // Torchrun's store outlives its ranks and their restarts, and may serve other programs.
  const auto prefix = concat("dimred/", place.run_id);
  return c10::make_intrusive<c10d::PrefixStore>(prefix, open_store(place, timeout, serve));
}

}  // namespace dimred::distributed
