#pragma once

#include <utility>

namespace dimred::models {

/// Returns Function::apply(arguments...) of a torch::autograd::Function. It reserves an empty
/// std::vector<bool>: g++ 13 and 14 believe to see a copy beyond its end (GCC 110498).
template <class Function, class... Arguments>
auto applied(Arguments&&... arguments) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
  return Function::apply(std::forward<Arguments>(arguments)...);
#pragma GCC diagnostic pop
}

}  // namespace dimred::models
