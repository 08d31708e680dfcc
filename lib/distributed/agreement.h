#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "distributed/communicator.h"

namespace dimred::distributed {

/// Facts that must be the same on every rank: name and text, in the same order everywhere.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Throws std::invalid_argument on every rank, naming the first fact that differs, the first rank
/// that has it otherwise, and both texts. Cost: the texts go to every rank.
void require_agreement(Communicator& communicator, const Facts& facts);

/// Runs `work` on rank 0 alone and returns its text on every rank. When it throws, every rank
/// throws the same, as throw_failure() does, so that nobody is left waiting.
std::string on_rank_0(Communicator& communicator, const std::function<std::string()>& work);

}  // namespace dimred::distributed
