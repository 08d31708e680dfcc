#include "training/setup.h"

#include <ATen/DeviceAccelerator.h>
#include <malloc.h>
#include <torch/utils.h>

#include <algorithm>

#include "distributed/agreement.h"
#include "models/name_patterns.h"
#include "models/network.h"
#include "models/script.h"
#include "support/errors.h"
#include "support/random.h"
#include "support/threads.h"
#include "training/batches.h"
#include "training/determinism.h"
#include "training/frozen.h"
#include "training/load_data.h"
#include "training/margin_head.h"
#include "training/pinned_memory.h"
#include "training/signals.h"
#include "training/whole.h"

namespace dimred::training {
namespace {

/// Activations are freed and taken again at every step; glibc would hand their pages back to the
/// kernel and fault them in anew: 30 % of the compute rate and most of the system time on 2 cores.
void keep_freed_memory() {
  constexpr int one_gigabyte = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, one_gigabyte);
  mallopt(M_TRIM_THRESHOLD, one_gigabyte);
}

/// Leaves what the patterns do not select out of what trains.
void freeze(models::Objective& objective, const ModelOptions& options, const std::string& logits) {
  const models::NameSelection trains{
      {"trainable_include_patterns", options.trainable_include_patterns, logits},
      {"trainable_exclude_patterns", options.trainable_exclude_patterns, logits}};
  if (trains.include.empty() && trains.exclude.empty()) return;
  std::vector<std::string> names;
  for (const auto& parameter : objective.parameters()) names.push_back(parameter.name);
  trains.include.require_matches(names);
  trains.exclude.require_matches(names);
  require(std::ranges::any_of(names, trains),
          "[training::model] trainable_include_patterns and trainable_exclude_patterns leave no "
          "parameter to train");
  objective.freeze([&](const std::string& name) { return !trains(name); });
}

/// A module's forward may want memory that channels_last does not have: view() of a convolution's
/// output, as a rule.
void require_memory_format(const Setup& setup, const std::string& model) {
  if (setup.memory_format != layout::MemoryFormat::channels_last || !models::is_script(model))
    return;
  const torch::NoGradGuard no_grad;
  const auto& shape = setup.image_shape;
  const auto images =
      torch::zeros({2, shape.channels, shape.height, shape.width}, torch::device(setup.device));
  try {
    setup.objective->logits(images.contiguous(torch::MemoryFormat::ChannelsLast),
                            models::Mode::evaluate);
  } catch (const std::runtime_error& error) {
    throw std::invalid_argument(
        formatted("{} (with --memory_format channels_last; use contiguous)", error.what()));
  }
}

}  // namespace

void attach_network(Setup& setup,
                    const ModelOptions& model,
                    const models::LossOptions& loss,
                    std::int64_t classes,
                    const models::HeadOptions& head) {
  models::validate(head);
  const bool has_head = head.margin.kind != models::MarginKind::none;
  const auto& shape = setup.image_shape;
  torch::manual_seed(RandomStream(setup.seed, RandomPurpose::initialization).next());
  const bool any = model.any_outputs && models::is_script(model.model);
  const auto outputs = has_head ? head.embedding_size : any ? 0 : classes;
  auto network =
      models::make_network(model.model, {shape.channels, shape.height, shape.width}, outputs);
  setup.precision = choose_precision(model.precision, setup.device);
  setup.objective = models::classifier(
      std::move(network),
      {loss,
       setup.precision,
       amp_lists(model),
       has_head ? margin_head(head, classes, setup.seed, setup.communicator, setup.device)
                : nullptr});
  setup.logits = models::network_info(model.model).logits;
  freeze(*setup.objective, model, setup.logits);
  setup.memory_format = model.memory_format;
  setup.flat = models::flatten(*setup.objective, setup.memory_format, setup.device);
  setup.columns = distributed::columns_of(setup.flat.layout, *setup.communicator);
  settle_frozen(setup);
  require_memory_format(setup, model.model);
  setup.batchnorm_layers = setup.objective->batchnorm_layers();
  setup.batchnorm_statistics = model.batchnorm_statistics;
  if (setup.batchnorm_statistics == BatchNormPolicy::synchronized &&
      setup.communicator->size() > 1) {
    setup.objective->synchronize_batchnorm(
        [communicator = setup.communicator](torch::Tensor& sums) {
          communicator->all_reduce(sums);
        });
  }
}

std::int64_t Setup::steps_per_epoch() const {
  return data::steps_per_epoch(train->size(), global_batch_size, /*drop_last=*/false);
}

Setup make_setup(const CommonOptions& options, const distributed::Ranks& ranks) {
  keep_freed_memory();
  if (options.run.deterministic) make_deterministic();
  Setup setup;
  setup.communicator = ranks.communicator;
  const auto share = std::max<std::int64_t>(1, available_threads() / ranks.place.local_size);
  torch::set_num_threads(static_cast<int>(options.run.threads > 0 ? options.run.threads : share));
  setup.device = parse_device(options.run.device, ranks.place.local_rank);
  setup.seed = static_cast<std::uint64_t>(options.run.seed);
  if (setup.device.is_cuda()) {
    at::accelerator::setDeviceIndex(setup.device.index());
    choose_cuda_algorithms(options.run.tf32, options.run.cudnn_autotune);
  }
  setup.global_batch_size = options.run.global_batch_size.value();
  setup.gradient_accumulation = options.run.gradient_accumulation;
  load_data(setup, options.data, options.run, share);
  setup.loading.pool = std::make_shared<data::BatchPool>(
      setup.device.is_cuda() ? pinned_memory(setup.device) : nullptr);
  keep_on_device(setup, options.run.data_on_device);
  setup.loss_scale = LossScale(options.loss_scale);
  attach_network(setup, options.model, options.loss, setup.train->classes(), options.head);
  record_passes(setup, options.run.cuda_graphs);
  distributed::require_agreement(*setup.communicator,
                                 {{"the training data", setup.train->description()},
                                  {"the test data", setup.test->description()},
                                  {"the layout", setup.flat.layout.hash},
                                  {"the weights drawn", replicated_digest(setup)},
                                  {"the frozen weights drawn", setup.frozen_digest}});
  return setup;
}

void record_passes(Setup& setup, bool wanted) {
  const bool can = setup.communicator->size() == 1 && setup.gradient_accumulation == 1 &&
                   setup.objective->head() == nullptr;
  const auto make = device_graphs(setup.device);
  if (wanted && can && make) setup.graphs = std::make_shared<PassGraphs>(make);
}

models::Minibatch to_minibatch(const Setup& setup, data::Batch& batch, bool wait) {
  const auto [channels, height, width] = batch.shape;
  const std::vector<std::int64_t> sizes{batch.count(), channels, height, width};
  const bool interleaved = batch.order == data::PixelOrder::interleaved;
  const std::vector<std::int64_t> strides{batch.shape.size(),
                                          interleaved ? 1 : height * width,
                                          interleaved ? width * channels : width,
                                          interleaved ? channels : 1};
  auto images = torch::from_blob(batch.images.data(), sizes, strides, torch::kFloat32);
  auto labels = torch::from_blob(batch.labels.data(), {batch.count()}, torch::kInt64);
  const auto format = setup.memory_format == layout::MemoryFormat::channels_last
                          ? torch::MemoryFormat::ChannelsLast
                          : torch::MemoryFormat::Contiguous;
  const auto there = [&](const torch::Tensor& values) {
    return values.to(setup.device, /*non_blocking=*/!wait);
  };
  // Labels first: a large copy out of plain memory waits for what its stream has been given.
  const auto labels_there = there(labels);
  return {there(images).contiguous(format), labels_there};
}

data::Order training_order(const Setup& setup) {
  return {.seed = setup.seed,
          .size = setup.train->size(),
          .shuffled = true,
          .arrangement = setup.arrangement};
}

data::LoaderOptions loader_options(const Setup& setup) {
  auto options = setup.loading;
  options.batch_size = setup.global_batch_size;
  options.rank = setup.communicator->rank();
  options.ranks = setup.communicator->size();
  // One channel lies the same either way.
  const bool interleaved =
      setup.memory_format == layout::MemoryFormat::channels_last && setup.image_shape.channels > 1;
  options.order = interleaved ? data::PixelOrder::interleaved : data::PixelOrder::planes;
  options.stopped = stop_received;
  return options;
}

}  // namespace dimred::training
