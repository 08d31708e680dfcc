#pragma once

#include <memory>
#include <span>

#include "method/method.h"

namespace dimred::method {

/// The method that the options ask for, in a space of these blocks. Throws std::invalid_argument
/// for a value out of range.
std::unique_ptr<Method> make_method(const MethodOptions& options,
                                    std::span<const Eigen::Index> block_sizes);

}  // namespace dimred::method
