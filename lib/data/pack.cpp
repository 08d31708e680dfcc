#include "data/pack.h"

#include <algorithm>
#include <string>
#include <vector>

#include "data/decode.h"
#include "data/encode.h"
#include "data/loader_report.h"
#include "data/packed.h"
#include "data/resize.h"
#include "support/errors.h"
#include "support/parallel.h"

namespace dimred::data {
namespace {

/// A sample whose bytes are its own.
struct OwnSample {
  Encoding encoding = Encoding::planes;
  ImageShape shape;
  std::vector<std::uint8_t> bytes;
  std::int64_t label = 0;
  std::string damage = {};
  std::string fault = {};  // why there is no sample

  Sample view() const {
    return {.encoding = encoding, .shape = shape, .bytes = bytes, .label = label};
  }
};

Size reduced_size(const ImageShape& shape, std::int64_t short_side) {
  const auto shorter = std::min(shape.height, shape.width);
  if (short_side == 0 || shorter <= short_side) return {shape.height, shape.width};
  return {shape.height * short_side / shorter, shape.width * short_side / shorter};
}

OwnSample packed_sample(const Sample& sample, const PackOptions& options) {
  const auto shape = encoded_shape(sample);
  const auto size = reduced_size(shape, options.short_side);
  const bool same_size = size == Size{shape.height, shape.width};
  const bool fits =
      options.encoding == PackEncoding::keep ||
      (options.encoding == PackEncoding::planes) == (sample.encoding == Encoding::planes);
  if (same_size && fits &&
      !(options.encoding == PackEncoding::jpeg && sample.encoding == Encoding::png))
    return {
        sample.encoding, sample.shape, {sample.bytes.begin(), sample.bytes.end()}, sample.label};
  const auto image = decoded(sample, shape.channels);
  const auto pixels = same_size ? image.pixels : resized(image, size);
  const ImageShape new_shape{shape.channels, size.height, size.width};
  const bool jpeg = options.encoding == PackEncoding::jpeg ||
                    (options.encoding == PackEncoding::keep && sample.encoding == Encoding::jpeg);
  if (jpeg) {
    const auto file = to_jpeg(pixels, new_shape, options.quality);
    return {Encoding::jpeg, {}, {file.begin(), file.end()}, sample.label, image.damage};
  }
  OwnSample planes{Encoding::planes, new_shape, {}, sample.label, image.damage};
  planes.bytes.resize(pixels.size());
  to_planes(pixels, new_shape, planes.bytes.data());
  return planes;
}

std::string source_text(const Dataset& dataset, const PackOptions& options) {
  const char* names[] = {"as they are", "planes", "JPEG"};
  return formatted("{} ({}{}, quality {})",
                   dataset.description(),
                   names[static_cast<int>(options.encoding)],
                   options.short_side > 0 ? formatted(", short side {}", options.short_side) : "",
                   options.quality);
}

OwnSample packed_sample(const Dataset& dataset, std::int64_t index, const PackOptions& options) {
  std::vector<std::uint8_t> scratch;
  try {
    return packed_sample(dataset.read(index, scratch), options);
  } catch (const std::runtime_error& error) {
    const auto failure = with_origin(error, dataset.origin(index));
    if (!options.skip_bad) throw failure;
    return {.fault = failure.what()};
  }
}

void count(const OwnSample& sample, const Dataset& dataset, std::int64_t index, WriteReport& sum) {
  if (!sample.fault.empty()) {
    if (sum.bad++ == 0) sum.first_bad = sample.fault;
    return;
  }
  ++sum.samples;
  if (sample.damage.empty()) return;
  if (sum.damaged++ == 0)
    sum.first_damaged = formatted("{}: {}", dataset.origin(index), sample.damage);
}

}  // namespace

WriteReport pack(const Dataset& dataset,
                 const std::filesystem::path& file,
                 const PackOptions& options,
                 const Progress& progress) {
  require(options.short_side >= 0 && options.quality >= 1 && options.quality <= 100,
          "[data] needs short_side >= 0 and quality in [1, 100], received {} and {}",
          options.short_side,
          options.quality);
  constexpr std::int64_t part = 64;
  PackedWriter writer(file);
  WriteReport report;
  std::vector<OwnSample> samples;
  for (std::int64_t first = 0; first < dataset.size(); first += part) {
    const auto size = std::min(part, dataset.size() - first);
    samples.assign(size, {});
    in_parallel(size, options.threads, [&](std::size_t i) {
      samples[i] = packed_sample(dataset, first + i, options);
    });
    for (std::int64_t i = 0; i < size; ++i) {
      const auto& sample = samples[i];
      count(sample, dataset, first + i, report);
      if (sample.fault.empty()) writer.add(sample.view());
    }
    if (progress) progress(size);
  }
  require_environment(report.samples > 0,
                      "[data] no sample can be decoded; the first error is: {}",
                      report.first_bad);
  writer.finish(source_text(dataset, options), dataset.class_names());
  return report;
}

}  // namespace dimred::data
