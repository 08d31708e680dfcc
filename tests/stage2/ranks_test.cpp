#include <gtest/gtest.h>

#include <array>
#include <mutex>

#include "distributed/volume.h"
#include "method/make_method.h"
#include "method/method.h"
#include "method/presets.h"
#include "support/errors.h"
#include "tests/tools/function_space.h"
#include "tests/tools/gloo_ranks.h"
#include "tests/tools/step_bytes.h"

namespace dimred::stage2 {
namespace {

using method::MethodOptions;
using method::preset;
using method::StepReport;

/// A least-squares problem in M columns whose batch is split over ranks, float64 where it is
/// summed: f(w) = mean over samples of (a_i'w - b_i)^2 / 2.
struct Problem {
  explicit Problem(std::int64_t columns) {
    const auto generator = at::detail::createCPUGenerator(7);
    samples = torch::randn({24, columns}, generator);
    targets = torch::randn({24}, generator);
    const auto wide = torch::randn({columns, 3}, generator);
    basis = std::get<0>(torch::linalg_qr(wide)).t().contiguous();
    layout::Parameter row;
    row.name = "w";
    row.shape = {columns};
    layout = layout::make_layout({row});
  }
  torch::Tensor samples, targets, basis;
  layout::Layout layout;
};

struct Result {
  torch::Tensor weights, momentum;
  std::vector<StepReport> reports;
  std::int64_t bytes_sent = 0;
};

/// `steps` steps on the communicator's rank; momentum is gathered.
Result descend(const Problem& problem,
               const MethodOptions& options,
               int steps,
               distributed::TensorCommunicator& communicator) {
  const auto size = communicator.size();
  const auto columns = distributed::columns_of(problem.layout, communicator);
  const auto& own = columns.own;
  const auto range = own.memory.empty() ? layout::ColumnRange{} : own.memory[0];
  const auto part = 24 / size;
  const auto a = problem.samples.narrow(0, communicator.rank() * part, part);
  const auto b = problem.targets.narrow(0, communicator.rank() * part, part);
  auto memory_basis = torch::zeros({3, problem.layout.memory_size});
  memory_basis.narrow(1, 0, problem.layout.file_size).copy_(problem.basis);
  const auto basis = memory_basis.narrow(1, range.begin, range.size()).contiguous();
  Result result{.weights = torch::zeros({problem.layout.memory_size})};
  const auto residual = [&] {
    return a.mv(result.weights.narrow(0, 0, problem.layout.file_size)) - b;
  };
  const auto loss = [&] {
    // As the trainer: loss, correct count and samples in one sum.
    std::array<double, 3> sum{residual().to(torch::kFloat64).square().sum().item<double>() / 48};
    communicator.sum(sum);
    return sum[0];
  };
  FunctionSpace space(basis, communicator, columns, result.weights, loss, [&] {
    auto gradient = torch::zeros({problem.layout.memory_size});
    gradient.narrow(0, 0, problem.layout.file_size).copy_(a.t().mv(residual()) / 24);
    return reduce_scatter(communicator, gradient, columns);
  });
  const auto method = make_method(options, space.block_sizes());
  for (int i = 0; i < steps; ++i) result.reports.push_back(method->step(space, 0));
  result.bytes_sent = communicator.bytes_sent();
  result.momentum = all_gather(communicator, space.momentum(), columns);
  return result;
}

class Presets : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All,
                         Presets,
                         testing::Values("robust", "mindspore-latest", "mindspore-first", "dldr"));

/// 100 columns cut at multiples of 16; 40 columns leave ranks without any, more ranks than k.
TEST_P(Presets, AreTheSameOnAnyNumberOfRanks) {
  for (const std::int64_t columns : {100, 40}) {
    const Problem problem(columns);
    const auto options = preset(GetParam()).method;
    const int steps = 3;  // at the subspace's minimum, rounding would decide the searches
    const auto alone = distributed::single_rank();
    const auto expected = descend(problem, options, steps, *alone);
    for (const int ranks : {2, 3, 4, 6}) {
      std::mutex mutex;
      torch::Tensor first;
      on_gloo_ranks(ranks, [&](distributed::TensorCommunicator& communicator) {
        const auto result = descend(problem, options, steps, communicator);
        // Three steps of float32 sums in another order.
        EXPECT_TRUE(torch::allclose(result.weights, expected.weights, 1e-4, 1e-5)) << ranks;
        EXPECT_TRUE(torch::allclose(result.momentum, expected.momentum, 1e-3, 1e-5)) << ranks;
        for (std::size_t i = 0; i < result.reports.size(); ++i) {
          EXPECT_EQ(result.reports[i].search.trials, expected.reports[i].search.trials);
          EXPECT_NEAR(result.reports[i].slope, expected.reports[i].slope, 1e-4);
        }
        const std::lock_guard lock(mutex);
        if (!first.defined()) first = result.weights;
        EXPECT_TRUE(torch::equal(first, result.weights));  // the same bits on every rank
      });
    }
  }
}

TEST(Step, ANanInOneRanksGradientChangesNothingAnywhere) {
  const Problem problem(100);
  const auto options = preset("robust").method;
  on_gloo_ranks(3, [&](distributed::TensorCommunicator& communicator) {
    const auto columns = distributed::columns_of(problem.layout, communicator);
    const auto own = columns.own.memory_columns();
    auto weights = torch::ones({problem.layout.memory_size});
    auto gradient = torch::ones({problem.layout.memory_size});
    if (communicator.rank() == 1) gradient[70] = NAN;  // a column of rank 2
    FunctionSpace space(
        torch::randn({3, own}),
        communicator,
        columns,
        weights,
        [] { return 1.0; },
        [&] { return reduce_scatter(communicator, gradient, columns); });
    const auto report = make_method(options, space.block_sizes())->step(space, 0);
    EXPECT_TRUE(report.not_finite);
    EXPECT_TRUE(torch::all(weights == 1).item<bool>());
    EXPECT_TRUE(torch::all(space.momentum() == 0).item<bool>());
  });
}

/// One reduce-scatter and one all-gather a step (two with the presets), and what the model says.
TEST(Wire, IsWhatTheScalingModelPredicts) {
  const std::int64_t columns = 64000;  // 8 equal shares
  const Problem problem(columns);
  for (const auto& [name, gathers] : {std::pair{"robust", 1}, {"mindspore-latest", 2}}) {
    const auto options = preset(name).method;
    on_gloo_ranks(8, [&, gathers = gathers](distributed::TensorCommunicator& communicator) {
      const auto result = descend(problem, options, 3, communicator);
      const auto vector = 4 * columns * 7 / 8;
      EXPECT_NEAR(
          static_cast<double>(result.bytes_sent), 3.0 * (1 + gathers) * vector, vector / 50.0);
      std::int64_t predicted = 0;
      for (const auto& report : result.reports) {
        const bytes_sent::StepShape step{.ranks = 8,
                                         .columns = columns,
                                         .components = 3,
                                         .trials = report.search.trials,
                                         .gathers = gathers};
        constexpr auto stop_flags = volume::all_reduce_bytes(2 * sizeof(double), 8);
        predicted += bytes_sent::stage2_bytes(step, {columns / 8, columns / 8}) - stop_flags;
      }
      EXPECT_EQ(result.bytes_sent, predicted);
    });
  }
}

}  // namespace
}  // namespace dimred::stage2
