#include <filesystem>

#include "data/presets.h"
#include "models/script.h"
#include "options/effects.h"
#include "run/options.h"
#include "support/digest.h"
#include "support/errors.h"

// Fills in values that options leave open, from the machine, the ranks and each other.
namespace dimred::run {
namespace {

engine::PrecisionChoice as_choice(models::Precision precision) {
  if (precision == models::Precision::float16) return engine::PrecisionChoice::float16;
  return precision == models::Precision::bfloat16 ? engine::PrecisionChoice::bfloat16
                                                  : engine::PrecisionChoice::float32;
}

void resolve_precision(CommonOptions& options) {
  const auto device = engine::parse_device(options.run.device);
  if (options.run.device == "auto") options.run.device = device.is_cuda() ? "cuda" : "cpu";
  const auto precision = engine::choose_precision(options.model.precision, device);
  options.model.precision = as_choice(precision);
  const auto lists = engine::amp_lists(options.model);
  models::validate(lists);
  auto& scale = options.loss_scale;
  if (precision == models::Precision::float16 && !scale.dynamic && !scale.loss_scale)
    scale.loss_scale = engine::default_float16_scale;
  engine::validate(scale);
}

void resolve_batch_sizes(RunOptions& options, int ranks) {
  if (options.global_batch_size && !options.batch_size) {
    require(*options.global_batch_size % ranks == 0,
            "[batch_size] global_batch_size needs to be a multiple of the {} ranks, received {}",
            ranks,
            *options.global_batch_size);
    options.batch_size = *options.global_batch_size / ranks;
  }
  if (!options.batch_size) options.batch_size = usual_batch_size;
  const auto total = *options.batch_size * ranks;
  require(!options.global_batch_size || *options.global_batch_size == total,
          "[batch_size] global_batch_size needs to be batch_size x ranks = {}, received {}",
          total,
          options.global_batch_size.value_or(0));
  options.global_batch_size = total;
  require(options.gradient_accumulation <= *options.batch_size,
          "[batch_size] gradient_accumulation needs to be at most batch_size = {}, received {}",
          *options.batch_size,
          options.gradient_accumulation);
}

/// Determines where a TorchScript module lies and which one it is.
void resolve_script(engine::ModelOptions& options) {
  if (!models::is_script(options.model)) {
    require(options.model_digest.empty(),
            "[model] model_digest needs a TorchScript module, received --model {}",
            options.model);
    return;
  }
  const auto file = std::filesystem::absolute(options.model).lexically_normal();
  require(std::filesystem::is_regular_file(file), "[model] no such file: {}", file);
  options.model = file.string();
  const auto digest = file_digest(file);
  require(options.model_digest.empty() || options.model_digest == digest,
          "[model] needs the module with the digest {} (model_digest of the run), received {} with "
          "the digest {}",
          options.model_digest,
          options.model,
          digest);
  options.model_digest = digest;
}

/// TF-slim prepares images for its Inception and VGG networks in ways of their own.
void choose_photograph_recipe(engine::DataOptions& data, const std::string& model) {
  if (models::is_script(model)) return;
  data.photograph_recipe = model.starts_with("inception") ? data::Recipe::inception
                           : model.starts_with("vgg")     ? data::Recipe::vgg
                                                          : data::Recipe::imagenet;
  data.photograph_size = models::network_info(model).image_size;
}

/// An unset size is the network's own if the recipe cuts images out. A size of 0 that was given or
/// stays means the recipe's own.
void resolve_image_size(engine::DataOptions& data, const std::string& model) {
  if (!data.preprocessing_name) return choose_photograph_recipe(data, model);
  const auto crop = data::recipe(*data.preprocessing_name, 0).crop;
  if (crop.cut == data::CropMode::none || models::is_script(model)) return;
  const auto made_for = models::network_info(model).image_size;
  if (made_for != crop.size) data.image_size = made_for;
}

}  // namespace

void resolve(CommonOptions& options, int ranks, const OptionTable& table) {
  resolve_batch_sizes(options.run, ranks);
  models::resolved(options.head.margin);  // refused before anything is loaded
  require(options.head.margin.kind == models::MarginKind::none || options.loss.label_smoothing == 0,
          "[loss] margin_loss needs label_smoothing = 0, received {}",
          options.loss.label_smoothing);
  resolve_script(options.model);
  const auto& model = options.model;
  const bool open = !options.data.preprocessing_name && !model.for_photographs.empty();
  if (!table.was_set(&options.data.image_size))
    resolve_image_size(options.data, open ? model.for_photographs : model.model);
  require(!options.run.deterministic || options.run.threads > 0,
          "[deterministic] deterministic needs threads >= 1, because sums depend on the number of "
          "threads, "
          "received 0 (all threads of the machine)");
  require(!options.run.deterministic || !options.run.cudnn_autotune,
          "[deterministic] deterministic = true needs cudnn_autotune = false, because "
          "cudnn_autotune chooses algorithms by speed");
  if (!options.data.split_seed) options.data.split_seed = options.run.seed;
  resolve_precision(options);
  require_effects(table);
}

}  // namespace dimred::run
