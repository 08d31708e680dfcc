#include "serving/predict.h"

#include <algorithm>
#include <functional>

#include "serving/image_source.h"
#include "support/errors.h"

namespace dimred::serving {
namespace {

namespace fs = std::filesystem;

bool is_finite(const torch::Tensor& values) { return values.isfinite().all().item<bool>(); }

std::vector<Guess> best(const torch::Tensor& probabilities, std::int64_t top) {
  const auto* values = probabilities.const_data_ptr<double>();
  std::vector<Guess> guesses;
  for (std::int64_t label = 0; label < probabilities.numel(); ++label)
    guesses.push_back({label, values[label]});
  std::ranges::stable_sort(guesses, std::greater<>(), &Guess::probability);
  guesses.resize(std::min(top, probabilities.numel()));
  return guesses;
}

}  // namespace

void predict(engine::Setup& setup,
             const std::vector<fs::path>& images,
             std::int64_t top,
             const std::function<void(const Prediction&)>& take) {
  require(top >= 1, "[predict] top needs at least 1, received {}", top);
  std::vector<ImageSource> sources;
  for (const auto& image : images) sources.push_back({image});
  prepare_images(setup, sources, [&](std::size_t first, const auto& pixels, const auto& errors) {
    const torch::NoGradGuard no_grad;
    const auto logits = setup.model.objective->logits(pixels, models::Mode::evaluate);
    const auto probabilities = torch::softmax(logits.to(torch::kFloat64), 1).cpu().contiguous();
    for (std::size_t i = 0; i < errors.size(); ++i) {
      Prediction prediction{.image = images[first + i], .error = errors[i]};
      if (errors[i].empty() && !is_finite(probabilities[i]))
        prediction.error = "the network gives numbers that are not finite";
      if (prediction.error.empty()) prediction.guesses = best(probabilities[i], top);
      take(prediction);
    }
  });
}

}  // namespace dimred::serving
