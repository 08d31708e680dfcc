#include "tests/tools/toy_setup.h"

#include "support/random.h"
#include "tests/tools/dropout_net.h"

namespace dimred::training {

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
  setup.train = std::make_shared<ToyData>(96);
  setup.test = setup.train;
  setup.image_shape = {1, 28, 28};
  setup.preprocessing = {.mean = {0.4}, .deviation = {0.3}};
  setup.precision = precision;
  setup.objective = models::classifier(network ? network : std::make_shared<DropoutNet>(),
                                       {.precision = precision});
  setup.flat = models::flatten(*setup.objective, layout::MemoryFormat::contiguous, torch::kCPU);
  setup.batchnorm_layers = setup.objective->batchnorm_layers();
  setup.columns = distributed::columns_of(setup.flat.layout, *setup.communicator);
  setup.global_batch_size = 32;
  setup.seed = 1;
  return setup;
}

data::Batch first_batch(const Setup& setup) {
  data::Loader loader(
      *setup.train, {.seed = 1, .size = 96}, setup.preprocessing, loader_options(setup), 0);
  return *loader.next();
}

}  // namespace dimred::training
