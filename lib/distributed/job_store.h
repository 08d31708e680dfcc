#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "launch/rank_info.h"

namespace c10d {
class Store;  // its header is expensive, and all trainers include this one
}

namespace dimred::distributed {

using Store = c10::intrusive_ptr<c10d::Store>;

/// The keys of this job in the store that its ranks share: torchrun's agent serves it, else rank 0,
/// with `serve`. Throws std::runtime_error when the port is in use, or nobody answers for `timeout`
/// seconds.
Store open_job_store(const launch::RankInfo& rank_info, double timeout, bool serve = false);

/// Text as the store keeps it, and a time as it takes one.
inline std::vector<std::uint8_t> stored(const std::string& text) {
  return {text.begin(), text.end()};
}
inline std::chrono::milliseconds in_milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// "host:port", for messages.
std::string rendezvous_address(const launch::RankInfo& rank_info);

}  // namespace dimred::distributed
