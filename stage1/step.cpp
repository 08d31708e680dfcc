#include "stage1/step.h"

#include <ATen/record_function.h>

#include <cmath>

#include "optimizers/clip.h"
#include "support/errors.h"
#include "training/whole.h"

namespace dimred::stage1 {

Descent::Descent(training::Setup& network,
                 const optimizers::OptimizerOptions& options,
                 const training::BucketOptions& bucket_options)
    : setup(network),
      gradient(options.gradient),
      segments(optimizers::segments_of(network.flat.layout)),
      optimizer(optimizers::make_optimizer(
          options, optimizers::segments_of(network.flat.layout), network.flat.weights)),
      control(network.device),
      buckets(*network.objective, network.flat, *network.communicator, bucket_options) {
  if (!network.flat.layout.sharded()) return;
  require(!options.gradient.max_gradient_norm && options.kind != optimizers::OptimizerKind::lars,
          "stage1",
          "max_gradient_norm and lars need norms of whole tensors, and of ",
          models::head_weights,
          " each rank has some rows only; leave them out, or use one rank");
}

training::BatchResult descend(Descent& descent,
                              const training::Step& step,
                              double learning_rate,
                              std::int64_t number) {
  auto& flat = descent.setup.flat;
  const auto result = training::loss_and_gradient(
      descent.setup, step.batch, step.global_count, step.key, &descent.buckets);
  descent.buckets.finish();
  if (!std::isfinite(result.loss_sum)) return result;
  RECORD_USER_SCOPE("optimizer step");
  auto& scale = descent.setup.loss_scale;
  const bool fits =
      !scale.active() || training::on_all_ranks(descent.setup, scale.unscale(flat.gradient));
  scale.update(!fits);
  if (!fits) return result;
  optimizers::prepare_gradient(flat.gradient, descent.segments, descent.gradient);
  descent.control.set(learning_rate, number);
  descent.optimizer->step(flat.weights, flat.gradient, descent.control);
  return result;
}

}  // namespace dimred::stage1
