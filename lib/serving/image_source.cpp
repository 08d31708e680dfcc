#include "serving/image_source.h"

#include <torch/utils.h>

#include <algorithm>

#include "data/decode.h"
#include "data/read_file.h"
#include "support/parallel.h"

namespace dimred::serving {
namespace {

constexpr std::size_t batch_images = 64;

/// Prepares one image's pixels into `out`; returns why it cannot, else an empty text.
std::string prepare(const ImageSource& source,
                    const data::Preparer& preparer,
                    std::span<float> out) {
  try {
    std::vector<std::uint8_t> own;
    auto bytes = source.bytes;
    if (bytes.empty()) {
      data::read_file(source.file.string(), "image", own);
      bytes = own;
    }
    const auto encoding = data::sniff(bytes);
    if (!encoding) return "needs a JPEG or PNG file";
    data::PrepareScratch scratch;
    preparer.prepare(
        {.encoding = *encoding, .bytes = bytes}, /*epoch=*/0, /*index=*/0, scratch, out);
    return {};
  } catch (const std::exception& error) {  // one bad file must not end the others
    return error.what();
  }
}

}  // namespace

void prepare_images(const engine::Setup& setup,
                    std::span<const ImageSource> sources,
                    const TakeImages& take) {
  const data::Preparer preparer(data::without_augmentation(setup.data.preprocessing),
                                setup.data.image_shape);
  const std::size_t size = preparer.shape().size();
  const std::size_t threads = torch::get_num_threads();
  const auto& [channels, height, width] = setup.data.image_shape;

  for (std::size_t begin = 0; begin < sources.size(); begin += batch_images) {
    const auto count = std::min(batch_images, sources.size() - begin);
    std::vector<float> pixels(count * size);  // zeros where a file cannot be used
    std::vector<std::string> errors(count);
    in_parallel(count, threads, [&](std::size_t i) {
      errors[i] = prepare(sources[begin + i], preparer, std::span(pixels).subspan(i * size, size));
    });
    const auto images = torch::from_blob(
        pixels.data(), {std::ssize(errors), channels, height, width}, torch::kFloat32);
    take(begin, images.to(setup.model.device).contiguous(tensor_format(setup.model)), errors);
  }
}

}  // namespace dimred::serving
