#include "support/agreement.h"

#include <algorithm>
#include <array>

#include "support/errors.h"
#include "support/json.h"

namespace dimred {
namespace {

std::string fact_of(const nlohmann::json& facts, std::size_t index, const std::string& key) {
  if (index >= facts.size() || facts[index][0] != key) return "(unset)";
  return facts[index][1].get<std::string>();
}

void compare(const nlohmann::json& first, const nlohmann::json& other, std::size_t rank) {
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto key = first[i][0].get<std::string>();
    const auto theirs = fact_of(other, i, key);
    const auto ours = first[i][1].get<std::string>();
    require(ours == theirs,
            "[distributed] ranks disagree in {}: rank 0 has {}, rank {} has {}",
            key,
            ours,
            rank,
            theirs);
  }
  require(first.size() == other.size(),
          "[distributed] every rank needs the same number of values to compare, received {} (rank "
          "0) and {} (rank {})",
          first.size(),
          other.size(),
          rank);
}

}  // namespace

void require_agreement(Communicator& communicator, const Facts& facts) {
  if (communicator.size() == 1) return;
  const auto all = communicator.gather(json_line(nlohmann::json(facts)));
  const auto first = nlohmann::json::parse(all.front());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all.front()) compare(first, nlohmann::json::parse(all[rank]), rank);
  }
}

bool any_rank(Communicator& communicator, bool flag) {
  std::array<double, 1> count{flag ? 1.0 : 0.0};
  communicator.sum(count);
  return count[0] > 0;
}

std::string broadcast(Communicator& communicator, const std::string& text, int root) {
  return communicator.gather(communicator.rank() == root ? text : "")[root];
}

void broadcast(Communicator& communicator, std::span<double> values) {
  if (communicator.rank() != 0) std::ranges::fill(values, 0.0);
  communicator.sum(values);
}

void agree(Communicator& communicator, const std::function<void()>& work) {
  if (communicator.size() == 1) return work();
  for (const auto& failure : communicator.gather(failure_of(work))) {
    if (!failure.empty()) throw_failure(failure);
  }
}

std::string text_of_rank_0(Communicator& communicator, const std::function<std::string()>& work) {
  constexpr char done = '+';  // before the text, in place of a failure's kind
  std::string outcome;
  if (communicator.rank() == 0) {
    const auto failure = failure_of([&] { outcome = done + work(); });
    if (!failure.empty()) outcome = failure;
  }
  outcome = broadcast(communicator, outcome);
  if (outcome.front() != done) throw_failure(outcome);
  return outcome.substr(1);
}

}  // namespace dimred
