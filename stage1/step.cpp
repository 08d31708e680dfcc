#include "stage1/step.h"

#include <ATen/record_function.h>

#include <cmath>

#include "engine/device/device_stream.h"
#include "engine/weights/full_vector.h"
#include "optimizers/clip.h"

namespace dimred::stage1 {
namespace {

optimizers::SumOverRanks sum_of(const engine::Setup& network) {
  return [communicator = network.communicator](torch::Tensor& values) {
    communicator->all_reduce(values);
  };
}

/// flat.weights from flat.gradient by the control's numbers.
void update_weights(Descent& descent) {
  auto& setup = *descent.setup;
  if (descent.optimizer->is_idle(descent.control)) return;
  const auto update = [&descent, &flat = setup.model.flat] {
    optimizers::prepare_gradient(
        flat.gradient, descent.segments, descent.gradient, descent.sum_over_ranks);
    descent.optimizer->step(flat.weights, flat.gradient, descent.control);
  };
  if (descent.update) {
    descent.update->run(update);
  } else {
    update();
  }
}

}  // namespace

Descent::Descent(engine::Setup& network,
                 const optimizers::OptimizerOptions& options,
                 const engine::BucketOptions& bucket_options)
    : setup(&network),
      gradient(options.gradient),
      segments(optimizers::segments_of(network.model.flat.layout)),
      sum_over_ranks(sum_of(network)),
      optimizer(optimizers::make_optimizer(
          options, segments, network.model.flat.weights, sum_over_ranks)),
      control(network.model.device),
      buckets(*network.model.objective, network.model.flat, *network.communicator, bucket_options) {
  if (network.model.graphs) update.emplace(network.model.graphs->work());
}

engine::BatchResult descend(Descent& descent,
                            const engine::DeviceBatch& batch,
                            double learning_rate,
                            std::int64_t number) {
  auto& flat = descent.setup->model.flat;
  auto& scale = descent.setup->model.loss_scale;
  const auto pending = engine::start_loss_and_gradient(
      *descent.setup, batch.tensors, batch.global_count, batch.key, &descent.buckets);
  descent.buckets.finish();
  const auto overflow =
      scale.active() ? engine::read_back(scale.unscale(flat.gradient)) : engine::HostCopy();
  if (batch.prefetch_next) batch.prefetch_next();
  const auto result = pending.get();  // the step's one wait for the device
  if (!std::isfinite(result.loss_sum)) return result;
  RECORD_USER_SCOPE("optimizer step");
  const bool fits =
      !scale.active() || engine::on_all_ranks(*descent.setup, overflow.get().item<float>() == 0);
  scale.update(!fits);
  if (!fits) return result;
  descent.control.set(learning_rate, number);
  update_weights(descent);
  return result;
}

}  // namespace dimred::stage1
