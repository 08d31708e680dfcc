// stage2_replay FOLDER PRESET: runs stage 2's step on the small problem in FOLDER (written by
// tests/reference/problem.py) and writes trace.npy [steps, M] and steps.csv beside it.
#include <fstream>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "method/presets.h"
#include "method/quasi_newton.h"
#include "tests/tools/function_space.h"
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

method::MethodOptions options_of(const std::string& preset, const nlohmann::json& numbers) {
  auto options = method::preset(preset).method;
  options.search.contraction = numbers.at("rho");
  options.search.sufficient_decrease = numbers.at("sigma");
  options.search.trials = numbers.at("trials");
  options.residual.gamma = numbers.at("gamma");
  options.residual.alpha = numbers.at("alpha");
  options.floors.absolute = numbers.at("curvature_floor");
  options.floors.relative = numbers.at("relative_curvature_floor");
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
  std::int64_t i = 0;
  stage2::FunctionSpace space(
      basis,
      *communicator,
      columns,
      weights,
      [&] { return loss(problem, weights, i).item<double>(); },
      [&] {
        auto w = weights.clone().requires_grad_(true);
        loss(problem, w, i).backward();
        return w.grad();
      });
  // Not by make_method(): some cases need floors out of range.
  method::QuasiNewton method(options, space.block_sizes());
  std::vector<torch::Tensor> trace;
  std::ofstream csv(folder / "steps.csv");
  csv << "step,loss,slope,trials,step_size,curvature,outcome\n" << std::setprecision(12);
  for (; i < numbers.at("steps").get<std::int64_t>(); ++i) {
    const auto r = method.step(space, 0);
    trace.push_back(weights.clone());
    csv << i << ',' << r.loss << ',' << r.slope << ',' << r.search.trials << ',' << r.step_size
        << ',' << r.curvature << ',' << method::name(r.search.outcome) << '\n';
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
