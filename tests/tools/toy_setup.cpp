#include "tests/tools/toy_setup.h"

#include "engine/input/batches.h"
#include "support/random.h"
#include "tests/tools/dropout_net.h"

namespace dimred::engine {

ToyData::ToyData(std::int64_t size) : PlanesDataset({1, 28, 28}, 10), size_(size) {
  for (std::int64_t i = 0; i < size * 784; ++i) {
    RandomStream stream(9, RandomPurpose::initialization, 0, static_cast<std::uint64_t>(i));
    pixels_.push_back(static_cast<std::uint8_t>(stream.below(128) + 100 * (i / 784 % 2)));
  }
}

data::Sample ToyData::read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const {
  return sample(std::span(pixels_).subspan(static_cast<std::size_t>(index * 784), 784), index % 2);
}

Setup toy_setup(models::Precision precision, const std::shared_ptr<models::Network>& network) {
  torch::manual_seed(3);
  Setup setup;
  setup.communicator = distributed::single_rank();
  setup.data.train = std::make_shared<ToyData>(96);
  setup.data.test = setup.data.train;
  setup.data.image_shape = {1, 28, 28};
  setup.data.preprocessing = {.mean = {0.4}, .deviation = {0.3}};
  setup.model.precision = precision;
  setup.model.objective = models::classifier(network ? network : std::make_shared<DropoutNet>(),
                                             {.precision = precision});
  setup.model.flat =
      models::flatten(*setup.model.objective, layout::MemoryFormat::contiguous, torch::kCPU);
  setup.model.batchnorm_layers = setup.model.objective->batchnorm_layers();
  setup.model.columns = distributed::columns_of(setup.model.flat.layout, *setup.communicator);
  setup.data.global_batch_size = 32;
  setup.seed = 1;
  return setup;
}

data::Batch first_batch(const Setup& setup) {
  data::Loader loader(*setup.data.train,
                      {.seed = 1, .size = 96},
                      setup.data.preprocessing,
                      loader_options(setup),
                      0);
  return *loader.next();
}

}  // namespace dimred::engine
