#include "data/pack.h"

#include <algorithm>
#include <string>
#include <vector>

#include "data/decode.h"
#include "data/encode.h"
#include "data/packed.h"
#include "data/parallel.h"
#include "data/resize.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

/// A sample whose bytes are its own.
struct OwnSample {
  Encoding encoding = Encoding::planes;
  ImageShape shape;
  std::string bytes;
  std::int64_t label = 0;

  Sample view() const {
    return {.encoding = encoding,
            .shape = shape,
            .bytes = {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()},
            .label = label};
  }
};

Size reduced_size(const ImageShape& shape, std::int64_t short_side) {
  const auto shorter = std::min(shape.height, shape.width);
  if (short_side == 0 || shorter <= short_side) return {shape.height, shape.width};
  return {shape.height * short_side / shorter, shape.width * short_side / shorter};
}

OwnSample packed_sample(const Sample& sample, const PackOptions& options) {
  const auto shape = sample.encoding == Encoding::planes ? sample.shape : encoded_shape(sample);
  const auto size = reduced_size(shape, options.short_side);
  const bool same_size = size == Size{shape.height, shape.width};
  const bool fits =
      options.encoding == PackEncoding::keep ||
      (options.encoding == PackEncoding::planes) == (sample.encoding == Encoding::planes);
  if (same_size && fits &&
      !(options.encoding == PackEncoding::jpeg && sample.encoding == Encoding::png))
    return {
        sample.encoding, sample.shape, {sample.bytes.begin(), sample.bytes.end()}, sample.label};
  const auto image = decoded(sample, static_cast<int>(shape.channels));
  const auto pixels = same_size ? image.pixels : resized(image, size);
  const ImageShape new_shape{shape.channels, size.height, size.width};
  const bool jpeg = options.encoding == PackEncoding::jpeg ||
                    (options.encoding == PackEncoding::keep && sample.encoding == Encoding::jpeg);
  if (jpeg)
    return {Encoding::jpeg,
            {},
            to_jpeg(pixels, new_shape, static_cast<int>(options.quality)),
            sample.label};
  return {Encoding::planes, new_shape, to_planes(pixels, new_shape), sample.label};
}

std::string source_text(const Dataset& dataset, const PackOptions& options) {
  const char* names[] = {"as they are", "planes", "JPEG"};
  return concat(
      dataset.description(),
      " (",
      names[static_cast<int>(options.encoding)],
      options.short_side > 0 ? concat(", short side ", options.short_side) : std::string(),
      ", quality ",
      options.quality,
      ')');
}

}  // namespace

void pack(const Dataset& dataset,
          const std::filesystem::path& file,
          const PackOptions& options,
          const Progress& progress) {
  require(options.short_side >= 0 && options.quality >= 1 && options.quality <= 100,
          "data::pack",
          "needs short_side >= 0 and quality in [1, 100], received ",
          options.short_side,
          " and ",
          options.quality);
  constexpr std::int64_t part = 64;
  PackedWriter writer(file);
  std::vector<OwnSample> samples;
  for (std::int64_t first = 0; first < dataset.size(); first += part) {
    const auto count = std::min(part, dataset.size() - first);
    samples.assign(static_cast<std::size_t>(count), {});
    in_parallel(samples.size(), static_cast<std::size_t>(options.threads), [&](std::size_t i) {
      std::vector<std::uint8_t> scratch;
      const auto index = first + static_cast<std::int64_t>(i);
      try {
        samples[i] = packed_sample(dataset.read(index, scratch), options);
      } catch (const std::runtime_error& error) {
        throw std::runtime_error(concat(error.what(), ": ", dataset.origin(index)));
      }
    });
    for (const auto& sample : samples) writer.add(sample.view());
    if (progress) progress(count);
  }
  writer.finish(source_text(dataset, options), dataset.class_names());
}

}  // namespace dimred::data
