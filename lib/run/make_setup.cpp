#include "run/make_setup.h"

#include <malloc.h>
#include <torch/utils.h>

#include <algorithm>

#include "engine/attach_network.h"
#include "engine/device/device.h"
#include "engine/device/pinned_memory.h"
#include "engine/input/batches.h"
#include "engine/weights/full_vector.h"
#include "run/described_data.h"
#include "run/signals.h"
#include "support/agreement.h"
#include "support/parallel.h"

namespace dimred::run {
namespace {

/// Activations are freed and taken again at every step; glibc would hand their pages back to the
/// kernel and fault them in again: 30 % of the compute rate and most of the system time on 2 cores.
void keep_freed_memory() {
  constexpr int one_gigabyte = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, one_gigabyte);
  mallopt(M_TRIM_THRESHOLD, one_gigabyte);
}

engine::BatchOptions batches_of(const RunOptions& run) {
  return {.global_batch_size = run.global_batch_size.value(),
          .seed = run.seed,
          .epochs = run.epochs,
          .prefetching = run.prefetching};
}

}  // namespace

engine::Setup make_setup(CommonOptions& options, const distributed::Ranks& ranks) {
  keep_freed_memory();
  if (options.run.deterministic) engine::make_deterministic();
  engine::Setup setup;
  auto& model = setup.model;
  setup.communicator = ranks.communicator;
  setup.stops = stops_by_signal();
  const auto share = std::max<std::int64_t>(1, available_threads() / ranks.rank_info.local_size);
  torch::set_num_threads(options.run.threads > 0 ? options.run.threads : share);
  model.device = engine::take_device(
      options.run.device, ranks.rank_info.local_rank, options.run.tf32, options.run.cudnn_autotune);
  setup.seed = options.run.seed;
  model.gradient_accumulation = options.run.gradient_accumulation;
  const bool open = !options.data.preprocessing_name && !options.model.for_photographs.empty();
  const auto batches = batches_of(options.run);
  setup.data = options.described_by.empty()
                   ? engine::load_data(options.data, batches, *setup.communicator, share)
                   : described_data(options.described_by, options.data, batches);
  if (open && *options.data.preprocessing_name != data::Recipe::none)
    options.model.model = options.model.for_photographs;
  setup.data.loading.pool = std::make_shared<data::BatchPool>(
      model.device.is_cuda() ? engine::pinned_memory(model.device) : nullptr);
  engine::keep_on_device(setup, options.run.data_on_device);
  model.loss_scale = engine::LossScale(options.loss_scale);
  engine::attach_network(
      setup, options.model, options.loss, setup.data.train->classes(), options.head);
  engine::record_passes(setup, options.run.cuda_graphs);
  require_agreement(*setup.communicator,
                    {{"the training data", setup.data.train->description()},
                     {"the test data", setup.data.test ? setup.data.test->description() : "none"},
                     {"the layout", model.flat.layout.hash},
                     {"the weights drawn", engine::replicated_digest(setup)},
                     {"the frozen weights drawn", model.frozen_digest}});
  return setup;
}

}  // namespace dimred::run
