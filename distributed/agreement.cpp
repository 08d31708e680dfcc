#include "distributed/agreement.h"

#include <nlohmann/json.hpp>

#include "support/errors.h"

namespace dimred::distributed {
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
  require(first.size() == other.size(), "[distributed] ranks disagree in what they compare");
}

}  // namespace

void require_agreement(Communicator& communicator, const Facts& facts) {
  if (communicator.size() == 1) return;
  const auto own =
      nlohmann::json(facts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto all = communicator.gather(own);
  const auto first = nlohmann::json::parse(all.front());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all.front()) compare(first, nlohmann::json::parse(all[rank]), rank);
  }
}

std::string on_rank_0(Communicator& communicator, const std::function<std::string()>& work) {
  if (communicator.size() == 1) return work();
  nlohmann::json outcome;
  if (communicator.rank() == 0) {
    try {
      outcome["text"] = work();
    } catch (const std::invalid_argument& error) {
      outcome["callers_fault"] = error.what();
    } catch (const std::exception& error) {
      outcome["failure"] = error.what();
    }
  }
  outcome = nlohmann::json::parse(broadcast_text(
      communicator, outcome.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  if (outcome.contains("callers_fault"))
    throw std::invalid_argument(outcome["callers_fault"].get<std::string>());
  if (outcome.contains("failure")) throw std::runtime_error(outcome["failure"].get<std::string>());
  return outcome["text"];
}

}  // namespace dimred::distributed
