#include "serving/export.h"

#include <torch/utils.h>

#include <algorithm>

#include "checkpoints/artifact.h"
#include "checkpoints/folder_commit.h"
#include "checkpoints/run_config.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/sealed_json.h"
#include "data/loader.h"
#include "engine/attach_network.h"
#include "engine/device/device.h"
#include "engine/input/batches.h"
#include "models/script.h"
#include "run/options.h"
#include "run/weights/named_weights.h"
#include "run/weights/weights.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/open_file.h"
#include "support/parallel.h"
#include "support/text.h"

namespace dimred::serving {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t reference_images = 4;

checkpoints::FloatTensor float_tensor(const std::string& name, const torch::Tensor& tensor) {
  return {name, tensor.sizes().vec(), models::to_vector(tensor.contiguous())};
}

/// The first test images as evaluation prepares them; standard normal ones where there is no data.
torch::Tensor reference_batch(engine::Setup& setup) {
  const auto& dataset = setup.data.test ? *setup.data.test : *setup.data.train;
  if (dataset.size() == 0) {
    const auto& [channels, height, width] = setup.data.image_shape;
    torch::manual_seed(0);
    return torch::randn({reference_images, channels, height, width}).to(setup.model.device);
  }
  const data::Order order{.seed = 0, .size = dataset.size(), .shuffled = false};
  auto options = engine::loader_options(setup);
  options.batch_size = std::min(reference_images, dataset.size());
  if (options.bad_sample == data::BadSample::replace) options.bad_sample = data::BadSample::drop;
  data::Loader loader(dataset,
                      order,
                      data::without_augmentation(setup.data.preprocessing),
                      options,
                      /*epoch=*/0);
  auto batch = loader.next();
  while (batch && batch->count() == 0) batch = loader.next();
  require_environment(batch.has_value(), "[export] {} has no readable image", dataset.title());
  return engine::to_minibatch(setup.model, *batch).images.clone();  // of the loader's memory
}

void write_reference(engine::Setup& setup, const Signature& signature, const fs::path& file) {
  const torch::NoGradGuard no_grad;
  const auto images = reference_batch(setup);
  const auto output = setup.model.objective->logits(images, models::Mode::evaluate);
  checkpoints::write_safetensors(
      file, {float_tensor("images", images), float_tensor(signature.output_name(), output)});
}

/// The version that a folder's name says, 0 for another name.
std::int64_t version_of(const std::string& name) {
  const bool number = !name.empty() && name.size() < 18 && std::ranges::all_of(name, is_digit);
  return number ? std::stoll(name) : 0;
}

/// The version that a folder is, or will be when its export ends (3.tmp); 0 for all that is no
/// export.
std::int64_t version_at(const fs::directory_entry& item) {
  const auto& path = item.path();
  if (path.extension() == ".tmp" && item.is_directory()) return version_of(path.stem().string());
  return fs::exists(path / signature_file) ? version_of(path.filename().string()) : 0;
}

std::int64_t largest_number(const fs::path& parent) {
  std::int64_t largest = 0;
  for (const auto& item : fs::directory_iterator(parent))
    largest = std::max(largest, version_at(item));
  return largest;
}

/// The next version, reserved by making its temporary folder: two exports never get the same.
struct Version {
  fs::path temporary, final_path;
};

Version reserve(const fs::path& parent) {
  create_folders(parent);
  for (auto number = largest_number(parent) + 1;; ++number) {
    Version version{parent / (std::to_string(number) + ".tmp"), parent / std::to_string(number)};
    if (!create_folders(version.temporary)) continue;
    if (!fs::exists(version.final_path)) return version;
    fs::remove(version.temporary);
  }
}

}  // namespace

Signature signature_of(const engine::Setup& setup,
                       const engine::ModelOptions& model,
                       nlohmann::ordered_json source) {
  const auto* head = setup.model.objective->head();
  const auto classes =
      head != nullptr ? std::vector<std::string>() : setup.data.train->class_names();
  return {.network = models::is_script(model.model) ? "torchscript" : model.model,
          .batch_norm_eps = model.batch_norm.eps,
          .input = setup.data.image_shape,
          .outputs = head != nullptr ? head->feature_size() : std::ssize(classes),
          .classes = classes,
          .preprocessing = data::without_augmentation(setup.data.preprocessing),
          .source = std::move(source)};
}

fs::path find_export(const fs::path& path) {
  const bool weights = path.filename() == weights_file && fs::is_regular_file(path);
  if (weights && fs::exists(path.parent_path() / signature_file)) return path.parent_path();
  if (fs::exists(path / signature_file)) return path;
  std::int64_t newest = 0;
  // A run stands for its own end, although an export may lie in its folder.
  if (fs::is_directory(path) && !checkpoints::is_run(path))
    for (const auto& item : fs::directory_iterator(path))
      if (fs::exists(item.path() / signature_file))
        newest = std::max(newest, version_of(item.path().filename().string()));
  return newest == 0 ? fs::path() : path / std::to_string(newest);
}

fs::path export_network(engine::Setup& setup,
                        const Signature& signature,
                        const fs::path& parent,
                        const fs::path& module) {
  const auto version = reserve(parent);
  try {
    run::write_named_weights(setup.model, version.temporary / weights_file);
    write_reference(setup, signature, version.temporary / reference_file);
    std::vector<std::string> files{weights_file, reference_file};
    if (!module.empty()) {
      write_file_atomically(version.temporary / module_file, checkpoints::read_text(module));
      files.emplace_back(module_file);
    }
    auto json = to_json(signature);
    checkpoints::seal(json, version.temporary, files);
    const auto text = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
    write_file_atomically(version.temporary / signature_file, text + "\n");
    checkpoints::commit_folder(
        version.temporary, version.final_path, checkpoints::Replacement::none);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(version.temporary, ignored);
    throw;
  }
  return version.final_path;
}

engine::Setup open_export(const fs::path& folder,
                          const Signature& signature,
                          const run::RunOptions& run) {
  if (run.deterministic) engine::make_deterministic();
  torch::set_num_threads(run.threads > 0 ? run.threads : available_threads());
  engine::Setup setup;
  setup.communicator = distributed::single_rank();
  setup.model.device = engine::take_device(run.device, 0, run.tf32, run.cudnn_autotune);
  setup.data.image_shape = signature.input;
  setup.data.preprocessing = signature.preprocessing;
  engine::ModelOptions model;
  model.model = signature.is_module() ? (folder / module_file).string() : signature.network;
  model.batch_norm.eps = signature.batch_norm_eps;
  // One that needs contiguous memory was exported from it; the others gain little on few images.
  model.memory_format = layout::MemoryFormat::contiguous;
  engine::attach_network(setup, model, {}, signature.outputs);
  if (signature.classes.empty()) setup.model.logits.clear();  // the last layer is the embedding
  run::apply(setup.model, run::load_weights(setup, folder / weights_file));
  return setup;
}

}  // namespace dimred::serving
