// exchange COLUMNS ROUNDS, started as R ranks: a reduce-scatter and an all-gather of a vector, with
// nothing else, by the node layout that the launcher gives. Rank 0 prints one JSON line: seconds of
// each round, and bytes of one that all ranks send together, within nodes and between them.
#include <torch/utils.h>

#include <array>
#include <iostream>
#include <nlohmann/json.hpp>

#include "distributed/columns.h"
#include "distributed/connect.h"
#include "support/stopwatch.h"

int main(int count, char** values) {
  using namespace dimred;
  if (count != 3) {
    std::cerr << "usage: exchange COLUMNS ROUNDS\n";
    return 2;
  }
  torch::set_num_threads(1);
  const launch::ConnectOptions patient{.heartbeat_timeout = 60};  // of many ranks on few cores
  auto all =
      distributed::connect(launch::discover(), patient, /*on_gpu=*/false, [](const auto& failure) {
        std::cerr << "rank " << failure.rank << ' ' << failure.text << '\n';
        std::_Exit(1);
      });
  auto& ranks = *all.communicator;
  const auto layout = layout::make_layout({{.name = "w", .shape = {std::stoll(values[1])}}});
  const auto columns = distributed::columns_of(layout, ranks);
  const auto gradient = torch::ones({layout.memory_size});
  const int rounds = std::stoi(values[2]);
  nlohmann::json result;
  for (int round = -1; round < rounds; ++round) {  // the first warms up
    ranks.barrier();
    const Stopwatch clock;
    const auto own = reduce_scatter(ranks, gradient, columns);
    const auto sum = all_gather(ranks, own, columns);
    ranks.barrier();
    if (round >= 0) result["seconds"].push_back(clock.seconds());
    if (!torch::all(sum == ranks.size()).item<bool>()) throw std::logic_error("a wrong sum");
  }
  std::array<double, 2> sent{};
  for (const auto kind :
       {distributed::Collective::reduce_scatter, distributed::Collective::all_gather}) {
    const auto& one = std::as_const(ranks).traffic(kind);
    sent[0] += static_cast<double>(one.bytes_sent) / (rounds + 1);
    sent[1] += static_cast<double>(one.bytes_between_nodes) / (rounds + 1);
  }
  ranks.sum(sent);
  result["bytes"] = sent[0];
  result["bytes_between_nodes"] = sent[1];
  if (ranks.rank() == 0) std::cout << result.dump() << '\n' << std::flush;
  all.leave();
  return 0;
}
