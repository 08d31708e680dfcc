#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/communicator.h"

namespace dimred {

/// Facts that must be the same on every rank: name and text, in the same order everywhere.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Throws std::invalid_argument on every rank, naming the first fact that differs, the first rank
/// that has it otherwise, and both texts. Cost: the texts go to every rank.
void require_agreement(Communicator& communicator, const Facts& facts);

/// True if any rank's flag is set.
bool any_rank(Communicator& communicator, bool flag);

/// `text` of rank `root`, on every rank.
std::string broadcast(Communicator& communicator, const std::string& text, int root = 0);

/// Gives every rank what rank 0 holds: the others add zeros, so that processors which would compute
/// something else by the same code go on from the same values.
void broadcast(Communicator& communicator, std::span<double> values);

/// Runs `work`, which calls no collective, on every rank and waits for all. When it throws on any,
/// every rank throws the first such rank's error, as throw_failure() does. One rank alone throws
/// the error itself.
void agree(Communicator& communicator, const std::function<void()>& work);

/// on_rank_0() for a text.
std::string text_of_rank_0(Communicator& communicator, const std::function<std::string()>& work);

/// Runs `work` on rank 0 alone and returns on every rank what it returns: nothing, a text, or what
/// JSON holds (a float64 keeps its bits; NaN and infinity are none). When it throws, every rank
/// throws the same, as throw_failure() does, so that nobody is left waiting.
template <class Work>
auto on_rank_0(Communicator& communicator, const Work& work) -> std::invoke_result_t<Work> {
  using Result = std::invoke_result_t<Work>;
  if (communicator.size() == 1) return work();
  if constexpr (std::is_void_v<Result>) {
    text_of_rank_0(communicator, [&] { return work(), std::string(); });
  } else if constexpr (std::is_same_v<Result, std::string>) {
    return text_of_rank_0(communicator, work);
  } else {
    const auto text = text_of_rank_0(communicator, [&] { return nlohmann::json(work()).dump(); });
    return nlohmann::json::parse(text).template get<Result>();
  }
}

}  // namespace dimred
