// model_logits MODEL CHANNELS HEIGHT CLASSES FILE.safetensors INPUT.npy FOLDER MODE...
//   FOLDER/MODE.npy; MODE eval, train: logits [batch, classes]; gradient, train_gradient: of the
//   mean loss to the labels 0, 1, 2, ... [M]. Dropout is off, so that the modes that train can be
//   compared.
// model_logits --names MODEL CHANNELS HEIGHT CLASSES [MODEL CHANNELS HEIGHT CLASSES...]
//   a line "= MODEL CHANNELS HEIGHT" before each one's names and shapes
#include <torch/nn/modules/dropout.h>

#include <iostream>
#include <string>
#include <vector>

#include "models/network.h"
#include "run/weights/weights.h"
#include "tests/tools/npy_tensor.h"

namespace {

using namespace dimred;

engine::Setup setup_of(const std::vector<std::string>& a, std::size_t first) {
  engine::Setup setup;
  const auto height = std::stoll(a.at(first + 2));
  auto network = models::make_network(
      a.at(first), {std::stoll(a.at(first + 1)), height, height}, std::stoll(a.at(first + 3)));
  for (auto& module : network->modules()) {
    if (auto* dropout = module->as<torch::nn::Dropout>()) dropout->options.p(0);
  }
  setup.model.objective = models::classifier(std::move(network), {});
  setup.model.flat =
      models::flatten(*setup.model.objective, layout::MemoryFormat::channels_last, torch::kCPU);
  return setup;
}

void print_names(const std::vector<std::string>& a) {
  for (std::size_t first = 1; first < a.size(); first += 4) {
    const auto setup = setup_of(a, first);
    std::cout << "= " << a[first] << ' ' << a[first + 1] << ' ' << a[first + 2] << '\n';
    for (const auto& entry : setup.model.flat.layout.entries) {
      std::cout << entry.name << " [";
      for (std::size_t i = 0; i < entry.shape.size(); ++i)
        std::cout << (i > 0 ? "," : "") << entry.shape[i];
      std::cout << "]\n";
    }
  }
}

torch::Tensor result_of(engine::Setup& setup,
                        const torch::Tensor& images,
                        const std::string& mode,
                        std::int64_t classes) {
  const auto pass = mode.starts_with("train") ? models::Mode::train : models::Mode::evaluate;
  if (mode.ends_with("gradient")) {
    const auto labels = torch::arange(images.size(0), torch::kInt64) % classes;
    const auto result = setup.model.objective->evaluate({images, labels}, pass);
    setup.model.flat.gradient.zero_();
    (result.loss_sum / result.sample_count).backward();
    return torch::tensor(models::to_file(setup.model.flat.layout, setup.model.flat.gradient));
  }
  const torch::NoGradGuard no_grad;
  return setup.model.objective->logits(images, pass);
}

void write_results(const std::vector<std::string>& a) {
  auto setup = setup_of(a, 0);
  const auto weights = run::load_weights(setup, a.at(4));
  const auto images = tests::load_npy(a.at(5)).contiguous(torch::MemoryFormat::ChannelsLast);
  for (std::size_t i = 7; i < a.size(); ++i) {
    run::apply(setup.model, weights);  // running statistics, too, which a mode may move
    tests::save_npy(a.at(6) + '/' + a[i] + ".npy",
                    result_of(setup, images, a[i], std::stoll(a.at(3))));
  }
}

}  // namespace

int main(int count, char** values) {
  try {
    const std::vector<std::string> arguments(values + 1, values + count);
    arguments.at(0) == "--names" ? print_names(arguments) : write_results(arguments);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
