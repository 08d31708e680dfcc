// stage2_replay FOLDER PRESET: runs stage 2's step on the small problem in FOLDER (written by
// tests/reference/problem.py) and writes trace.npy [steps, M] and steps.csv beside it.
#include <fstream>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "stage2/step.h"
#include "tests/tools/npy_tensor.h"

namespace {

using namespace dimred;

struct Problem {
  std::int64_t inputs, hidden, classes, batch;
  torch::Tensor images, labels;
};

/// Mean softmax cross-entropy of an MLP, tanh, over batch `index`; weights1, bias1, weights2, bias2
/// flat.
torch::Tensor loss(const Problem& p, const torch::Tensor& w, std::int64_t index) {
  const auto parts =
      w.split_with_sizes({p.hidden * p.inputs, p.hidden, p.classes * p.hidden, p.classes});
  const auto x = p.images.narrow(0, index * p.batch, p.batch);
  const auto hidden = torch::tanh(torch::linear(x, parts[0].view({p.hidden, p.inputs}), parts[1]));
  const auto logits = torch::linear(hidden, parts[2].view({p.classes, p.hidden}), parts[3]);
  const auto labels = p.labels.narrow(0, index * p.batch, p.batch);
  return -torch::log_softmax(logits, 1).gather(1, labels.unsqueeze(1)).to(torch::kFloat64).mean();
}

stage2::StepOptions options_of(const std::string& preset, const nlohmann::json& numbers) {
  auto options = stage2::preset(preset).step;
  options.search.rho = numbers.at("rho");
  options.search.sigma = numbers.at("sigma");
  options.search.trials = numbers.at("trials");
  options.residual.gamma = numbers.at("gamma");
  options.residual.alpha = numbers.at("alpha");
  options.bfgs.curvature_floor = numbers.at("curvature_floor");
  options.bfgs.relative_curvature_floor = numbers.at("relative_curvature_floor");
  return options;
}

void replay(const std::filesystem::path& folder, const std::string& preset) {
  nlohmann::json numbers;
  std::ifstream(folder / "problem.json") >> numbers;
  const Problem problem{numbers.at("d"),
                        numbers.at("h"),
                        numbers.at("C"),
                        numbers.at("batch"),
                        tests::load_npy(folder / "images.npy"),
                        tests::load_npy(folder / "labels.npy").to(torch::kInt64)};
  const auto basis = tests::load_npy(folder / "basis.npy");
  auto weights = tests::load_npy(folder / "weights.npy");
  const auto options = options_of(preset, numbers);
  const auto communicator = distributed::single_rank();
  const distributed::Columns columns;
  const stage2::Place place{
      .subspace = basis, .communicator = *communicator, .columns = columns, .own_columns = weights};
  auto state = stage2::initial_state(place);
  std::vector<torch::Tensor> trace;
  std::ofstream csv(folder / "steps.csv");
  csv << "step,loss,slope,trials,step_size,curvature,outcome\n" << std::setprecision(12);
  for (std::int64_t i = 0; i < numbers.at("steps").get<std::int64_t>(); ++i) {
    auto w = weights.clone().requires_grad_(true);
    const auto value = loss(problem, w, i);
    value.backward();
    const stage2::BatchLoss batch{
        .loss = [&value] { return value.item<double>(); },
        .gradient = w.grad(),
        .evaluate = [&] { return loss(problem, weights, i).item<double>(); }};
    const auto r = stage2::step(place, batch, weights, state, options);
    trace.push_back(weights.clone());
    csv << i << ',' << r.loss << ',' << r.slope << ',' << r.search.trials << ',' << r.step_size
        << ',' << r.curvature << ',' << stage2::name(r.search.outcome) << '\n';
  }
  tests::save_npy(folder / "trace.npy", torch::stack(trace));
}

}  // namespace

int main(int count, char** values) {
  try {
    if (count != 3) throw std::invalid_argument("usage: stage2_replay FOLDER PRESET");
    replay(values[1], values[2]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
