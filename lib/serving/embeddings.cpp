#include "serving/embeddings.h"

#include <algorithm>

#include "support/errors.h"

namespace dimred::serving {
namespace {

torch::Tensor find(models::Objective& objective, const std::string& name) {
  for (const auto& entry : models::all_tensors(objective))
    if (entry.name == name) return entry.tensor;
  return {};
}

void append_output(std::vector<double>& numbers, const torch::Tensor& output) {
  const auto values = output.to(torch::kFloat64).cpu().contiguous();
  require_environment(values.isfinite().all().item<bool>(),
                      "[verify] the network gives embeddings that are not finite");
  const auto* first = values.const_data_ptr<double>();
  numbers.insert(numbers.end(), first, first + values.numel());
}

}  // namespace

EmbeddingScope::EmbeddingScope(engine::Setup& setup) {
  const auto name =
      setup.model.logits.substr(0, setup.model.logits.find(','));  // others are auxiliary
  if (name.empty() || setup.model.objective->head() != nullptr) return;
  const auto weight = find(*setup.model.objective, name + ".weight");
  require(weight.defined() && weight.dim() == 2,
          "[verify] needs a network with a linear last layer, but {} is not linear",
          name);
  swap(weight, torch::eye(weight.size(1), weight.options().requires_grad(false)));
  const auto bias = find(*setup.model.objective, name + ".bias");
  if (bias.defined())
    swap(bias, torch::zeros({weight.size(1)}, bias.options().requires_grad(false)));
}

EmbeddingScope::~EmbeddingScope() {
  for (auto& [parameter, own] : swapped_) parameter.set_data(own);
}

/// Every handle of the parameter, the layer's own too, sees the other values.
void EmbeddingScope::swap(const torch::Tensor& parameter, const torch::Tensor& instead) {
  swapped_.push_back({parameter, parameter.detach()});
  parameter.set_data(instead);
}

Embeddings embeddings_of(engine::Setup& setup,
                         const std::vector<ImageSource>& images,
                         bool with_flipped) {
  const torch::NoGradGuard no_grad;
  Embeddings result;
  prepare_images(setup, images, [&](std::size_t first, const auto& pixels, const auto& errors) {
    const auto bad = std::ranges::find_if(errors, [](const auto& text) { return !text.empty(); });
    if (bad != errors.end()) {
      const auto& image = images[first + (bad - errors.begin())];
      fail_environment("[verify] {}: {}", image.file, *bad);
    }
    const auto output = setup.model.objective->logits(pixels, models::Mode::evaluate);
    result.size = output.size(1);
    append_output(result.plain, output);
    if (with_flipped)
      append_output(result.flipped,
                    setup.model.objective->logits(pixels.flip({3}), models::Mode::evaluate));
  });
  return result;
}

}  // namespace dimred::serving
