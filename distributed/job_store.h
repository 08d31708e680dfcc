#pragma once

#include <c10/util/intrusive_ptr.h>

#include <string>

#include "launch/place.h"

namespace c10d {
class Store;  // its header is expensive, and all trainers include this one
}

namespace dimred::distributed {

using Store = c10::intrusive_ptr<c10d::Store>;

/// The keys of this job in the store where its ranks meet: torchrun's agent serves it, else rank 0,
/// with `serve`. Throws std::runtime_error when the port is in use, or nobody answers for `timeout`
/// seconds.
Store open_job_store(const launch::Place& place, double timeout, bool serve = false);

/// "host:port", for messages.
std::string meeting_point(const launch::Place& place);

}  // namespace dimred::distributed
