// head_tool FILE [--margin_loss ... --class_sampling_ratio ... --seed ... --step ...], alone or as
// R ranks: FILE holds features [[]], labels [], weights [[]] as JSON. Each rank takes an even part
// of the samples and its classes, in float64, and prints loss, correct, the gradients of its own
// features and classes, and the numbers of those classes.
#include <torch/utils.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "distributed/connect.h"
#include "engine/heads/class_sharded_softmax.h"
#include "options/effects.h"

namespace {

using namespace dimred;
using nlohmann::json;

torch::Tensor matrix_of(const json& rows) {
  auto matrix = torch::empty({std::ssize(rows), std::ssize(rows.at(0))}, torch::kFloat64);
  for (std::size_t i = 0; i < rows.size(); ++i)
    matrix[static_cast<std::int64_t>(i)] =
        torch::tensor(rows[i].get<std::vector<double>>(), torch::kFloat64);
  return matrix;
}

template <class Number>
std::vector<Number> numbers_of(const torch::Tensor& values) {
  const auto flat = values.contiguous();
  return {flat.const_data_ptr<Number>(), flat.const_data_ptr<Number>() + flat.numel()};
}

json solve(const json& problem,
           const models::Margin& margin,
           const models::ClassSampling& sampling,
           distributed::TensorCommunicator& communicator) {
  const int rank = communicator.rank();
  const int ranks = communicator.size();
  const auto weights = matrix_of(problem.at("weights"));
  const auto features = matrix_of(problem.at("features"));
  const auto labels = torch::tensor(problem.at("labels").get<std::vector<std::int64_t>>());
  const auto range = engine::class_range(weights.size(0), rank, ranks);
  const auto begin = features.size(0) * rank / ranks;
  const auto count = features.size(0) * (rank + 1) / ranks - begin;
  const auto result = engine::class_sharded_softmax(features.narrow(0, begin, count),
                                                    labels.narrow(0, begin, count),
                                                    weights.narrow(0, range.begin, range.size()),
                                                    range,
                                                    margin,
                                                    sampling,
                                                    communicator);
  const auto own = result.sampled.defined() ? result.sampled : torch::arange(range.size());
  return {{"loss", result.loss},
          {"correct", result.correct},
          {"feature_gradient", numbers_of<double>(result.feature_gradient)},
          {"weight_gradient", numbers_of<double>(result.weight_gradient)},
          {"classes", numbers_of<std::int64_t>(own + range.begin)}};
}

int work(const std::vector<std::string>& arguments) {
  models::HeadOptions options{.margin = {}};
  std::filesystem::path file;
  std::int64_t seed = 0, step = 0;
  OptionTable table("head_tool", "one step of a class-sharded softmax");
  table.add("file", &file, "JSON").positional();
  table.add("seed", &seed, "of the sample of classes");
  table.add("step", &step, "of the sample of classes");
  models::add_options(table, options);
  table.parse(arguments);
  require_effects(table);
  const auto margin = models::resolved(options.margin);
  std::ifstream stream(file);
  auto all =
      distributed::connect(launch::discover(), {}, /*on_gpu=*/false, [](const auto& failure) {
        std::cerr << "rank " << failure.rank << ' ' << failure.text << '\n';
        std::_Exit(1);
      });
  const models::ClassSampling sampling{.ratio = options.sampling_ratio,
                                       .seed = static_cast<std::uint64_t>(seed),
                                       .step = static_cast<std::uint64_t>(step)};
  std::cout << solve(json::parse(stream), margin, sampling, *all.communicator).dump() << '\n'
            << std::flush;
  all.leave();
  return 0;
}

}  // namespace

int main(int count, char** values) {
  try {
    torch::set_num_threads(1);
    return work({values + 1, values + count});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
