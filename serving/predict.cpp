#include "serving/predict.h"

#include <torch/utils.h>

#include <algorithm>
#include <functional>
#include <span>

#include "data/decode.h"
#include "data/parallel.h"
#include "data/read_file.h"
#include "support/errors.h"

namespace dimred::serving {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t batch_images = 64;

/// Prepares one file's pixels into `out`; returns why it cannot, else an empty text.
std::string prepare_file(const fs::path& file,
                         const training::Setup& setup,
                         const data::Preprocessing& preprocessing,
                         const data::PixelTable& table,
                         std::span<float> out) {
  try {
    std::vector<std::uint8_t> bytes;
    data::read_file(file.string(), "image", bytes);
    const auto encoding = data::sniff(bytes);
    if (!encoding) return "needs a JPEG or PNG file";
    data::PrepareScratch scratch;
    data::prepare({.encoding = *encoding, .bytes = bytes},
                  setup.image_shape,
                  preprocessing,
                  table,
                  data::PixelOrder::planes,
                  /*epoch=*/0,
                  /*index=*/0,
                  scratch,
                  out);
    return {};
  } catch (const std::exception& error) {  // one bad file must not end the others
    return error.what();
  }
}

std::vector<Guess> best(const torch::Tensor& probabilities, std::int64_t top) {
  const auto* values = probabilities.const_data_ptr<double>();
  std::vector<Guess> guesses;
  for (std::int64_t label = 0; label < probabilities.numel(); ++label)
    guesses.push_back({label, values[label]});
  std::ranges::stable_sort(guesses, std::greater<>(), &Guess::probability);
  guesses.resize(static_cast<std::size_t>(std::min(top, probabilities.numel())));
  return guesses;
}

/// Softmax [images, classes] of prepared pixels, float64 on the host.
torch::Tensor probabilities(training::Setup& setup,
                            std::vector<float>& pixels,
                            std::int64_t count) {
  const torch::NoGradGuard no_grad;
  const auto& [channels, height, width] = setup.image_shape;
  const auto images =
      torch::from_blob(pixels.data(), {count, channels, height, width}, torch::kFloat32);
  const auto format = setup.memory_format == layout::MemoryFormat::channels_last
                          ? torch::MemoryFormat::ChannelsLast
                          : torch::MemoryFormat::Contiguous;
  const auto logits =
      setup.objective->logits(images.to(setup.device).contiguous(format), models::Mode::evaluate);
  return torch::softmax(logits.to(torch::kFloat64), 1).cpu().contiguous();
}

}  // namespace

void predict(training::Setup& setup,
             const std::vector<fs::path>& images,
             std::int64_t top,
             const std::function<void(const Prediction&)>& take) {
  require(top >= 1, "serving::predict", "top needs at least 1, received ", top);
  const auto preprocessing = data::without_augmentation(setup.preprocessing);
  const auto table = data::pixel_table(preprocessing);
  const auto size = static_cast<std::size_t>(setup.image_shape.size());
  const auto threads = static_cast<std::size_t>(torch::get_num_threads());
  for (std::size_t begin = 0; begin < images.size(); begin += batch_images) {
    const auto count = std::min(batch_images, images.size() - begin);
    std::vector<float> pixels(count * size);  // zeros where a file cannot be used
    std::vector<std::string> errors(count);
    data::in_parallel(count, threads, [&](std::size_t i) {
      errors[i] = prepare_file(images[begin + i],
                               setup,
                               preprocessing,
                               table,
                               std::span(pixels).subspan(i * size, size));
    });
    const auto result = probabilities(setup, pixels, static_cast<std::int64_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      Prediction prediction{.image = images[begin + i], .error = errors[i]};
      if (errors[i].empty()) prediction.guesses = best(result[static_cast<std::int64_t>(i)], top);
      take(prediction);
    }
  }
}

}  // namespace dimred::serving
