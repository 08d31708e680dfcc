#include "training/input/train_on.h"

#include "support/errors.h"
#include "training/input/batches.h"

namespace dimred::training {
namespace {

/// Every second sample from `first` on.
data::SharedDataset every_second(data::SharedDataset whole, std::int64_t first) {
  std::vector<std::int64_t> indices;
  for (auto index = first; index < whole->size(); index += 2) indices.push_back(index);
  return data::subset(std::move(whole), std::move(indices));
}

}  // namespace

void train_on(Setup& setup, TrainOn samples) {
  if (samples == TrainOn::train) return;
  require(setup.data.validation != nullptr,
          "[train_on] train_on = validation needs a validation split: "
          "validation_fraction > 0 in stage 1");
  require(setup.data.validation->size() >= 2,
          "[train_on] train_on = validation needs >= 2 samples held out, received {}",
          setup.data.validation->size());
  const auto held_out = setup.data.validation;
  setup.data.sampler = nullptr;  // was of the other samples
  setup.data.shuffle_window = 0;
  setup.data.sample_order = "global";
  setup.data.train = every_second(held_out, 0);
  setup.data.validation = every_second(held_out, 1);
  keep_on_device(setup, setup.data.keep_on_device);
}

}  // namespace dimred::training
