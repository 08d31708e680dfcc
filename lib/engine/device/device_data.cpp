#include "engine/device/device_data.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "support/errors.h"

namespace dimred::engine {
namespace {

using torch::indexing::None;
using torch::indexing::Slice;

torch::Tensor on(torch::Device device, const std::vector<std::int64_t>& values) {
  return torch::tensor(values, torch::kInt64).to(device);
}

/// [count, length]: where each place of an output side lies in the input, which may be outside.
torch::Tensor places(const torch::Tensor& shifts, const torch::Tensor& side) {
  return shifts.index({Slice(), None}) + side;
}

torch::Tensor is_inside(const torch::Tensor& at, std::int64_t length) {
  return (at >= 0).logical_and_(at < length);
}

/// Pixels [count, height, width, channels] of the samples, shifted, padded and flipped.
torch::Tensor augmented(const DeviceData& data,
                        const torch::Tensor& indices,
                        const torch::Tensor& row_shifts,
                        const torch::Tensor& column_shifts,
                        const torch::Tensor& flips) {
  const auto height = data.pixels.size(2), width = data.pixels.size(3);
  const auto side = [&](std::int64_t length) {
    return torch::arange(length, indices.options()).index({None, Slice()});
  };
  const auto from_right =
      torch::where(flips.index({Slice(), None}), width - 1 - side(width), side(width));
  const auto rows = places(row_shifts, side(height)), columns = places(column_shifts, from_right);
  const auto inside = is_inside(rows, height)
                          .index({Slice(), Slice(), None})
                          .logical_and(is_inside(columns, width).index({Slice(), None, Slice()}));
  // Indices on both sides of the channels put these last.
  const auto taken =
      data.pixels.index({indices.index({Slice(), None, None}),
                         Slice(),
                         rows.clamp(0, height - 1).index({Slice(), Slice(), None}),
                         columns.clamp(0, width - 1).index({Slice(), None, Slice()})});
  return taken * inside.index({Slice(), Slice(), Slice(), None});  // padding is pixel 0
}

}  // namespace

std::string why_not_on_device(const data::Dataset& dataset,
                              const data::Preprocessing& preprocessing,
                              std::int64_t memory) {
  const auto shape = dataset.shape();
  if (!shape) return "the images have several sizes, or are not kept decoded";
  std::vector<std::uint8_t> scratch;
  try {
    if (dataset.size() > 0 && dataset.read(0, scratch).encoding != data::Encoding::planes)
      return "the images are not kept decoded";
  } catch (const std::runtime_error& error) {
    return formatted("the first sample is bad: {}", error.what());
  }
  if (preprocessing.crop.cut != data::CropMode::none) return "the preprocessing crops the images";
  if (preprocessing.jitter.any()) return "the preprocessing changes the colours";
  if (preprocessing.change) return "the preprocessing changes the pixels";
  if (preprocessing.standardise) return "the preprocessing normalises each image by itself";
  const auto bytes = dataset.size() * shape->size();
  if (bytes > memory) return formatted("the images have {} bytes, more than {}", bytes, memory);
  return "";
}

DeviceData device_data(const data::Dataset& dataset, torch::Device device) {
  const auto shape = dataset.shape().value();
  const auto size = dataset.size();
  auto pixels = torch::empty({size, shape.channels, shape.height, shape.width}, torch::kUInt8);
  std::vector<std::int64_t> labels(size);
  std::map<std::int64_t, std::string> damaged;
  std::vector<std::uint8_t> scratch;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto sample = dataset.read(i, scratch);
    check(sample.shape == shape && std::ssize(sample.bytes) == shape.size(),
          "a sample has the shape of its set");
    std::memcpy(pixels.mutable_data_ptr<std::uint8_t>() + i * shape.size(),
                sample.bytes.data(),
                sample.bytes.size());
    labels[i] = sample.label;
    if (!sample.damage.empty()) damaged.emplace(i, sample.damage);
  }
  return {pixels.to(device), on(device, labels), std::move(damaged)};
}

DevicePlan device_plan(const std::vector<std::int64_t>& positions,
                       const data::Order& order,
                       const data::Preprocessing& preprocessing,
                       std::int64_t epoch,
                       torch::Device device) {
  const auto count = positions.size();
  const bool draws = preprocessing.pad > 0 || preprocessing.flip;
  std::vector<std::int64_t> indices(count);
  std::vector<std::int64_t> rows(draws ? count : 0), columns(rows.size()), flips(rows.size());
  at::parallel_for(0, count, 4096, [&](std::int64_t first, std::int64_t last) {
    for (auto i = first; i < last; ++i) {
      indices[i] = order.at(epoch, positions[i]);
      if (!draws) continue;
      const auto drawn = data::augmentation_of(preprocessing, epoch, indices[i]);
      rows[i] = drawn.row_shift;
      columns[i] = drawn.column_shift;
      flips[i] = drawn.flip ? 1 : 0;
    }
  });
  if (!draws) return {.indices = on(device, indices)};
  return {on(device, indices),
          on(device, rows),
          on(device, columns),
          on(device, flips).to(torch::kBool)};
}

torch::Tensor device_table(const data::Preprocessing& preprocessing, torch::Device device) {
  const auto table = data::pixel_table(preprocessing);
  auto values = torch::empty({std::ssize(table) * 256}, torch::kFloat32);
  for (std::size_t channel = 0; channel < table.size(); ++channel)
    std::ranges::copy(table[channel], values.mutable_data_ptr<float>() + channel * 256);
  return values.to(device);
}

torch::Tensor device_images(const DeviceData& data,
                            const torch::Tensor& table,
                            const DevicePlan& plan,
                            std::int64_t begin,
                            std::int64_t count) {
  const torch::NoGradGuard no_grad;
  const auto part = [&](const torch::Tensor& all) { return all.narrow(0, begin, count); };
  const auto channels = data.pixels.size(1);
  const auto first = torch::arange(channels, data.labels.options()).mul_(256);  // of each table
  const auto indices = part(plan.indices);
  if (!plan.rows.defined()) {
    const auto pixels = data.pixels.index_select(0, indices).to(torch::kInt64);
    return table.take(pixels.add_(first.view({channels, 1, 1})));
  }
  const auto pixels =
      augmented(data, indices, part(plan.rows), part(plan.columns), part(plan.flips));
  return table.take(pixels.to(torch::kInt64).add_(first)).permute({0, 3, 1, 2});
}

}  // namespace dimred::engine
