#pragma once

#include <memory>

namespace dimred::models {
struct Network;
}

namespace dimred::engine {

/// A network whose gradients are `factor` times what they should be, so that a loss scale overflows
/// in float32, too.
std::shared_ptr<models::Network> steep_network(double factor);

}  // namespace dimred::engine
