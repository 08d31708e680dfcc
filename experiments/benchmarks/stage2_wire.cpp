// stage2_wire COLUMNS COMPONENTS ROUNDS, started as R ranks (torchrun, srun, mpirun): a whole step
// of stage 2 as it is here, `robust` and a preset, against the wire of MindSpore's scheme alone (an
// all-reduce of the gradient, then each rank broadcasts its part of both back-projections as whole
// vectors, 2 R in all), round by round. Rank 0 prints one JSON line: seconds of each round, and
// bytes a rank sends, averaged over ranks.
#include <torch/utils.h>

#include <array>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "distributed/connect.h"
#include "method/make_method.h"
#include "method/method.h"
#include "method/presets.h"
#include "stage2/tensor_space.h"
#include "support/stopwatch.h"

namespace {

using namespace dimred;
using distributed::TensorCommunicator;

struct Problem {
  torch::Tensor basis;     // [k x own columns]
  torch::Tensor gradient;  // [columns], this rank's part of the batch
  torch::Tensor weights;   // [columns]
  distributed::Columns columns;
};

Problem make_problem(std::int64_t columns,
                     std::int64_t components,
                     const TensorCommunicator& ranks) {
  const auto layout = layout::make_layout({{.name = "w", .shape = {columns}}});
  Problem problem{.gradient = torch::randn({layout.memory_size}),
                  .weights = torch::randn({layout.memory_size})};
  problem.columns = distributed::columns_of(layout, ranks);
  const auto own = problem.columns.own.memory_columns();
  problem.basis = torch::randn({components, own}) / std::sqrt(layout.memory_size);
  return problem;
}

/// A step with one accepted trial: the loss falls by more than any slope asks for.
class WireSpace final : public stage2::TensorSpace {
 public:
  explicit WireSpace(Problem& problem, TensorCommunicator& ranks)
      : TensorSpace(problem.basis, ranks, problem.columns, problem.weights), problem_(problem) {}

  void gradient(method::Buffers buffers) override {
    begin_gradient(buffers);
    set_gradient(reduce_scatter(communicator(), problem_.gradient, columns()));
  }
  double loss() override {
    std::array<double, 3> sums{-1e9, 0, 1};
    communicator().sum(sums);
    return sums[0];
  }

 private:
  double gradient_loss() override { return 1; }

  Problem& problem_;
};

void mindspore(const Problem& problem, TensorCommunicator& ranks) {
  auto gradient = problem.gradient.clone();
  ranks.all_reduce(gradient);
  for (int part = 0; part < 2; ++part) {
    auto sum = torch::zeros_like(gradient);
    for (int root = 0; root < ranks.size(); ++root) {
      auto vector = problem.gradient.clone();
      ranks.broadcast(vector, root);
      sum.add_(vector);
    }
  }
}

/// Runs `work`; adds its seconds and this rank's bytes to the scheme's list.
template <class Work>
void measure(nlohmann::json& result,
             const char* scheme,
             TensorCommunicator& ranks,
             const Work& work) {
  ranks.barrier();
  const auto bytes = ranks.bytes_sent();
  const Stopwatch clock;
  work();
  ranks.barrier();
  result["seconds"][scheme].push_back(clock.seconds());
  std::array<double, 1> sent{static_cast<double>(ranks.bytes_sent() - bytes)};
  ranks.sum(sent);
  result["bytes"][scheme] = sent[0] / ranks.size();
}

}  // namespace

int main(int count, char** values) {
  if (count != 4) {
    std::cerr << "usage: stage2_wire COLUMNS COMPONENTS ROUNDS\n";
    return 2;
  }
  torch::set_num_threads(1);
  auto all =
      distributed::connect(launch::discover(), {}, /*on_gpu=*/false, [](const auto& failure) {
        std::cerr << "rank " << failure.rank << ' ' << failure.text << '\n';
        std::_Exit(1);
      });
  auto& ranks = *all.communicator;
  auto problem = make_problem(std::stoll(values[1]), std::stoll(values[2]), ranks);
  WireSpace space(problem, ranks);
  const auto robust = make_method(method::preset("robust").method, space.block_sizes());
  const auto presets = make_method(method::preset("mindspore-latest").method, space.block_sizes());
  nlohmann::json result{{"ranks", ranks.size()}, {"columns", problem.weights.numel()}};
  for (int round = -1; round < std::stoi(values[3]); ++round) {  // the first warms up
    if (round == 0) result["seconds"].clear();
    measure(result, "robust", ranks, [&] { robust->step(space, 0); });
    measure(result, "presets", ranks, [&] { presets->step(space, 0); });
    measure(result, "mindspore", ranks, [&] { mindspore(problem, ranks); });
  }
  if (ranks.rank() == 0) std::cout << result.dump() << '\n' << std::flush;
  all.leave();
  return 0;
}
