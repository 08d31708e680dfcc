// device_algebra COLUMNS COMPONENTS ROWS REPEATS: what CUDA kernels do with P [COMPONENTS x
// COLUMNS] in a step of stage 2, and with tiles of W [ROWS x COLUMNS] in a PCA, in turn with copies
// of the same bytes (within the device; for W also from page-locked host memory). Prints one JSON
// line: the device's seconds of each turn, and the bytes that each must at least move.
#include <ATen/DeviceAccelerator.h>
#include <c10/core/Event.h>
#include <torch/cuda.h>

#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "pca/device.h"
#include "stage2/line.h"
#include "stage2/projection_device.h"
#include "support/stopwatch.h"

namespace {

using namespace dimred;
using Json = nlohmann::json;

constexpr double gamma = 0.9;
constexpr double alpha = 0.005;

/// By the device's clock.
template <class Work>
double seconds_of(const Work& work) {
  const auto stream = at::accelerator::getCurrentStream(0);
  c10::Event start(torch::kCUDA, c10::EventFlag::BACKEND_DEFAULT);
  c10::Event end(torch::kCUDA, c10::EventFlag::BACKEND_DEFAULT);
  start.record(stream);
  work();
  end.record(stream);
  end.synchronize();
  return start.elapsedTime(end) * 1e-3;
}

/// One turn of each, the first one only to warm up.
void take_turns(Json& result,
                int repeats,
                const std::vector<std::pair<std::string, std::function<double()>>>& works) {
  for (int i = 0; i <= repeats; ++i) {
    for (const auto& [name, work] : works) {
      const double seconds = work();
      if (i > 0) result[name].push_back(seconds);
    }
  }
}

/// Both reads of P in a step, as step.cpp has them on one rank.
Json stage2_turns(std::int64_t columns,
                  std::int64_t components,
                  torch::ScalarType dtype,
                  int repeats) {
  const auto floats = torch::dtype(torch::kFloat32).device(torch::kCUDA);
  const auto dense = torch::randn({components, columns}, floats).to(dtype);
  const stage2::Subspace subspace(stage2::device::aligned_rows(dense, torch::kCUDA));
  auto copy = torch::empty_like(dense);
  const auto g = torch::randn({columns}, floats);
  const auto m = torch::zeros_like(g);
  const auto w = torch::zeros_like(g);
  const std::vector<double> d(static_cast<std::size_t>(components), 1e-3);
  const auto communicator = distributed::single_rank();
  const distributed::Columns alone;
  const stage2::Place place{
      .subspace = subspace, .communicator = *communicator, .columns = alone, .own_columns = g};
  const auto vector = static_cast<std::int64_t>(g.nbytes());
  const auto bytes = static_cast<std::int64_t>(dense.nbytes());
  Json result = {{"columns", columns},
                 {"components", components},
                 {"dtype", torch::toString(dtype)},
                 {"project_bytes", bytes + 2 * vector},  // P, g, m
                 {"advance_bytes", bytes + 7 * vector},  // P, g, m, w; m, u, w and its copy
                 {"copy_bytes", 2 * bytes}};
  take_turns(result,
             repeats,
             {{"project", [&] { return seconds_of([&] {
                                  project(subspace, g, {m, g});
                                }); }},
              {"advance",
               [&] {
                 return seconds_of([&] { descent_line(place, {d, d}, {g, m, gamma, alpha}, w); });
               }},
              {"copy", [&] { return seconds_of([&] { copy.copy_(dense); }); }}});
  return result;
}

/// A pass over all tiles; the host has filled its slots before.
double pass(pca::Device& device, const pca::DeviceShape& shape) {
  const Stopwatch watch;
  for (std::int64_t i = 0; i * shape.tile_columns < shape.columns; ++i) {
    const pca::DeviceTile tile{i, i * shape.tile_columns, shape.tile_columns};
    const auto slot = i % shape.slots;
    if (!device.holds(tile)) device.host_tile(slot);
    device.submit(slot, tile);
  }
  device.finish();
  return watch.seconds();
}

/// The Gram pass with W from the host and with W on the device, and the components' pass.
Json pca_turns(std::int64_t columns, std::int64_t components, std::int64_t rows, int repeats) {
  constexpr std::int64_t tile_columns = 16384;
  const pca::DeviceShape shape{.rows = rows,
                               .components = components,
                               .tile_columns = tile_columns,
                               .slots = 8,
                               .columns = columns / tile_columns * tile_columns};
  const auto tile = torch::randn({rows, tile_columns});
  const std::vector<double> combinations(static_cast<std::size_t>(rows * (components + 8)), 0.01);
  const auto bytes = rows * shape.columns * 4;
  const auto pinned = torch::empty({bytes}, torch::dtype(torch::kUInt8).pinned_memory(true));
  auto there = torch::empty({bytes}, torch::dtype(torch::kUInt8).device(torch::kCUDA));
  auto copy = torch::empty_like(there);
  Json result = {{"rows", rows},
                 {"columns", shape.columns},
                 {"components", components},
                 {"gram_bytes", bytes},
                 {"gram_operations", rows * (rows + 1) * shape.columns},
                 {"components_operations", 2 * rows * components * shape.columns},
                 {"copy_bytes", 2 * bytes},
                 {"host_copy_bytes", bytes}};
  take_turns(result,
             repeats,
             {{"gram_streamed",
               [&] {
                 const auto device = pca::open_device(shape);
                 for (std::int64_t i = 0; i < shape.slots; ++i)
                   std::copy_n(tile.const_data_ptr<float>(), tile.numel(), device->host_tile(i));
                 device->start_gram(true);
                 const double first = pass(*device, shape);
                 device->start_gram(true);
                 result["gram_kept"].push_back(pass(*device, shape));
                 device->start_components(combinations, components);
                 result["components_kept"].push_back(pass(*device, shape));
                 return first;
               }},
              {"host_copy", [&] { return seconds_of([&] { there.copy_(pinned, true); }); }},
              {"copy", [&] { return seconds_of([&] { copy.copy_(there); }); }}});
  for (const auto* name : {"gram_kept", "components_kept"}) result[name].erase(0);  // the warm-up
  return result;
}

}  // namespace

int main(int count, char** values) {
  if (count != 5) {
    std::cerr << "usage: device_algebra COLUMNS COMPONENTS ROWS REPEATS\n";
    return 2;
  }
  if (!torch::cuda::is_available()) {
    std::cerr << "device_algebra: no CUDA device was found\n";
    return 1;
  }
  const torch::NoGradGuard no_grad;
  const std::int64_t columns = std::stoll(values[1]);
  const std::int64_t components = std::stoll(values[2]);
  const int repeats = std::stoi(values[4]);
  Json result;
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16})
    result["stage2"].push_back(stage2_turns(columns, components, dtype, repeats));
  result["pca"] = pca_turns(columns, components, std::stoll(values[3]), repeats);
  std::cout << result.dump() << '\n';
  return 0;
}
