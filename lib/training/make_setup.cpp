#include "training/make_setup.h"

#include <ATen/DeviceAccelerator.h>
#include <malloc.h>
#include <torch/utils.h>

#include <algorithm>

#include "models/name_patterns.h"
#include "models/network.h"
#include "models/script.h"
#include "support/agreement.h"
#include "support/errors.h"
#include "support/parallel.h"
#include "support/random.h"
#include "support/text.h"
#include "training/device/device.h"
#include "training/device/pinned_memory.h"
#include "training/heads/margin_head.h"
#include "training/input/batches.h"
#include "training/weights/frozen.h"
#include "training/weights/full_vector.h"

namespace dimred::training {
namespace {

/// Activations are freed and taken again at every step; glibc would hand their pages back to the
/// kernel and fault them in again: 30 % of the compute rate and most of the system time on 2 cores.
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
  const auto names = texts_of(objective.parameters(), &models::NamedTensor::name);
  trains.include.require_matches(names);
  trains.exclude.require_matches(names);
  require(std::ranges::any_of(names, trains),
          "[model] trainable_include_patterns and trainable_exclude_patterns leave no "
          "parameter to train");
  objective.freeze([&](const std::string& name) { return !trains(name); });
}

/// A module's forward may want memory that channels_last does not have: view() of a convolution's
/// output, as a rule.
void require_memory_format(const Setup& setup, const std::string& model) {
  if (setup.model.memory_format != layout::MemoryFormat::channels_last || !models::is_script(model))
    return;
  const torch::NoGradGuard no_grad;
  const auto& shape = setup.data.image_shape;
  const auto images = torch::zeros({2, shape.channels, shape.height, shape.width},
                                   torch::device(setup.model.device));
  try {
    setup.model.objective->logits(images.contiguous(torch::MemoryFormat::ChannelsLast),
                                  models::Mode::evaluate);
  } catch (const std::runtime_error& error) {
    refuse("{} (with --memory_format channels_last; use contiguous)", error.what());
  }
}

}  // namespace

void attach_network(Setup& setup,
                    const ModelOptions& model,
                    const models::LossOptions& loss,
                    std::int64_t classes,
                    const models::HeadOptions& head) {
  auto& own = setup.model;
  const bool has_head = head.margin.kind != models::MarginKind::none;
  const auto& shape = setup.data.image_shape;
  torch::manual_seed(RandomStream(setup.seed, RandomPurpose::initialization).next());
  const bool any = model.any_outputs && models::is_script(model.model);
  const auto outputs = has_head ? head.embedding_size : any ? 0 : classes;
  auto network =
      models::make_network(model.model, {shape.channels, shape.height, shape.width}, outputs);
  if (model.initialization == models::Initialization::mindspore) {
    require(!models::is_script(model.model),
            "[data] initialization sets the first weights of a network, but the TorchScript module "
            "{} has "
            "its own",
            model.model);
    models::initialise_as_mindspore(*network);
  }
  models::set_constants(*network, model.batch_norm);
  own.precision = choose_precision(model.precision, own.device);
  own.objective = models::classifier(
      std::move(network),
      {loss,
       own.precision,
       amp_lists(model),
       has_head ? margin_head(head, classes, setup.seed, setup.communicator, own.device)
                : nullptr});
  own.logits = models::network_info(model.model).logits;
  freeze(*own.objective, model, own.logits);
  own.memory_format = model.memory_format;
  own.flat = models::flatten(*own.objective, own.memory_format, own.device);
  own.columns = distributed::columns_of(own.flat.layout, *setup.communicator);
  record_frozen_digest(own);
  require_memory_format(setup, model.model);
  own.batchnorm_layers = own.objective->batchnorm_layers();
  own.batchnorm_statistics = model.batchnorm_statistics;
  if (own.batchnorm_statistics == BatchNormPolicy::synchronized && setup.communicator->size() > 1) {
    own.objective->synchronize_batchnorm([communicator = setup.communicator](torch::Tensor& sums) {
      communicator->all_reduce(sums);
    });
  }
}

Setup make_setup(CommonOptions& options, const distributed::Ranks& ranks) {
  keep_freed_memory();
  if (options.run.deterministic) make_deterministic();
  Setup setup;
  auto& model = setup.model;
  setup.communicator = ranks.communicator;
  const auto share = std::max<std::int64_t>(1, available_threads() / ranks.rank_info.local_size);
  torch::set_num_threads(options.run.threads > 0 ? options.run.threads : share);
  model.device = parse_device(options.run.device, ranks.rank_info.local_rank);
  setup.seed = options.run.seed;
  if (model.device.is_cuda()) {
    at::accelerator::setDeviceIndex(model.device.index());
    choose_cuda_algorithms(options.run.tf32, options.run.cudnn_autotune);
  }
  model.gradient_accumulation = options.run.gradient_accumulation;
  const bool open = !options.data.preprocessing_name && !options.model.for_photographs.empty();
  setup.data = load_data(options.data, options.run, *setup.communicator, share);
  if (open && *options.data.preprocessing_name != data::Recipe::none)
    options.model.model = options.model.for_photographs;
  setup.data.loading.pool = std::make_shared<data::BatchPool>(
      model.device.is_cuda() ? pinned_memory(model.device) : nullptr);
  keep_on_device(setup, options.run.data_on_device);
  model.loss_scale = LossScale(options.loss_scale);
  attach_network(setup, options.model, options.loss, setup.data.train->classes(), options.head);
  record_passes(setup, options.run.cuda_graphs);
  require_agreement(*setup.communicator,
                    {{"the training data", setup.data.train->description()},
                     {"the test data", setup.data.test ? setup.data.test->description() : "none"},
                     {"the layout", model.flat.layout.hash},
                     {"the weights drawn", replicated_digest(setup)},
                     {"the frozen weights drawn", model.frozen_digest}});
  return setup;
}

void record_passes(Setup& setup, bool wanted) {
  const bool can = setup.communicator->size() == 1 && setup.model.gradient_accumulation == 1 &&
                   setup.model.objective->head() == nullptr;
  const auto make = device_graphs(setup.model.device);
  if (wanted && can && make) setup.model.graphs = std::make_shared<PassGraphs>(make);
}

}  // namespace dimred::training
