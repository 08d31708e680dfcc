#include "commands/pca_ranks.h"

namespace dimred::commands {

pca::Ranks pca_ranks(distributed::Communicator& communicator) {
  if (communicator.size() == 1) return {};
  return {.rank = communicator.rank(),
          .size = communicator.size(),
          .sum = [&](std::span<double> values) { communicator.all_reduce(values); },
          .gather = [&](const std::string& text) { return communicator.gather(text); }};
}

}  // namespace dimred::commands
