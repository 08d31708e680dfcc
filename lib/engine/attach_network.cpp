#include "engine/attach_network.h"

#include <algorithm>

#include "engine/heads/margin_head.h"
#include "engine/weights/frozen.h"
#include "models/name_patterns.h"
#include "models/network.h"
#include "models/script.h"
#include "support/errors.h"
#include "support/random.h"
#include "support/text.h"

namespace dimred::engine {
namespace {

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
            "[model] initialization = mindspore has no effect on the TorchScript module {}, which "
            "has its own weights; leave the option out",
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

void record_passes(Setup& setup, bool wanted) {
  const bool can = setup.communicator->size() == 1 && setup.model.gradient_accumulation == 1 &&
                   setup.model.objective->head() == nullptr;
  const auto make = device_graphs(setup.model.device);
  if (wanted && can && make) setup.model.graphs = std::make_shared<PassGraphs>(make);
}

}  // namespace dimred::engine
