// class_sharded [--classes C --global_batch_size N --steps S --embedding_size D ...], alone or as R
// ranks: steps of a class-sharded margin softmax with SGD and momentum on random features. Rank 0
// prints one JSON line: each rank's peak of memory above what the process held before (VmHWM), the
// bytes it sent in a step, and seconds of the steps.
#include <torch/utils.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "distributed/connect.h"
#include "engine/heads/class_sharded_softmax.h"
#include "options/option_help.h"
#include "support/errors.h"
#include "support/stopwatch.h"

namespace {

using namespace dimred;

struct Options {
  models::HeadOptions head{.margin = {}};
  std::int64_t classes = 100'000, global_batch_size = 64, steps = 3, seed = 1;
};

/// Bytes, from a line of /proc/self/status.
std::int64_t memory(const std::string& key) {
  std::ifstream stream("/proc/self/status");
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(key + ":")) return 1024 * std::stoll(line.substr(key.size() + 1));
  }
  throw std::runtime_error("[class_sharded] /proc/self/status has no " + key);
}

/// From here on VmHWM is the largest VmRSS.
void forget_peak() {
  std::ofstream stream("/proc/self/clear_refs");
  require_environment(static_cast<bool>(stream << 5 << std::flush),
                      "[class_sharded] cannot write /proc/self/clear_refs");
}

struct Layer {
  torch::Tensor weights, momentum;
};

Layer make_layer(std::int64_t classes, std::int64_t embedding) {
  return {torch::randn({classes, embedding}).mul_(0.01), torch::zeros({classes, embedding})};
}

void step(Layer& layer,
          const Options& options,
          const engine::ClassRange& range,
          std::int64_t number,
          distributed::TensorCommunicator& ranks) {
  const auto begin = options.global_batch_size * ranks.rank() / ranks.size();
  const auto count = options.global_batch_size * (ranks.rank() + 1) / ranks.size() - begin;
  const auto labels = torch::randint(0, range.classes, {count});
  const models::ClassSampling sampling{.ratio = options.head.sampling_ratio,
                                       .seed = static_cast<std::uint64_t>(options.seed),
                                       .step = static_cast<std::uint64_t>(number)};
  const auto result =
      engine::class_sharded_softmax(torch::randn({count, options.head.embedding_size}),
                                    labels,
                                    layer.weights,
                                    range,
                                    models::resolved(options.head.margin),
                                    sampling,
                                    ranks);
  layer.momentum.mul_(0.9);
  if (result.sampled.defined())
    layer.momentum.index_add_(0, result.sampled, result.weight_gradient);
  else
    layer.momentum.add_(result.weight_gradient);
  layer.weights.add_(layer.momentum, -0.1);
}

nlohmann::json measured(const Options& options, distributed::TensorCommunicator& ranks) {
  const auto range = engine::class_range(options.classes, ranks.rank(), ranks.size());
  {  // buffers of the matrix library and of the connections, on something small
    const auto small =
        engine::class_range(std::int64_t{64} * ranks.size(), ranks.rank(), ranks.size());
    auto layer = make_layer(small.size(), options.head.embedding_size);
    step(layer, options, small, 0, ranks);
  }
  forget_peak();
  const auto before = memory("VmRSS");
  auto layer = make_layer(range.size(), options.head.embedding_size);
  const auto sent = ranks.bytes_sent();
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < options.steps; ++i) {
    const Stopwatch clock;
    step(layer, options, range, i + 1, ranks);
    seconds.push_back(clock.seconds());
  }
  const auto bytes = (ranks.bytes_sent() - sent) / options.steps;
  return {{"peak_bytes", memory("VmHWM") - before}, {"sent", bytes}, {"seconds", seconds}};
}

int work(const std::vector<std::string>& arguments) {
  Options options;
  OptionTable table("class_sharded",
                    "measure memory, bytes and seconds of a class-sharded softmax");
  table.add("classes", &options.classes, "number of classes", at_least(1));
  table.add("global_batch_size",
            &options.global_batch_size,
            "samples per step over all ranks",
            at_least(1));
  table.add("steps", &options.steps, "number of measured steps", at_least(1));
  table.add("seed", &options.seed, "seed of the sample of classes", at_least(0));
  models::add_options(table, options.head);
  if (const auto help = requested_help(table, arguments)) {
    std::cout << *help;
    return 0;
  }
  table.parse(arguments);
  auto all =
      distributed::connect(launch::discover(), {}, /*on_gpu=*/false, [](const auto& failure) {
        std::cerr << "rank " << failure.rank << ' ' << failure.text << '\n';
        std::_Exit(1);
      });
  auto& ranks = *all.communicator;
  const auto texts = ranks.gather(measured(options, ranks).dump());
  if (ranks.rank() == 0) {
    nlohmann::json result{{"ranks", ranks.size()},
                          {"classes", options.classes},
                          {"embedding_size", options.head.embedding_size},
                          {"global_batch_size", options.global_batch_size},
                          {"class_sampling_ratio", options.head.sampling_ratio}};
    for (const auto& text : texts) result["measured"].push_back(nlohmann::json::parse(text));
    std::cout << result.dump() << '\n' << std::flush;
  }
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
    return 2;
  }
}
