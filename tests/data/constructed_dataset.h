#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/tools/planes_dataset.h"

namespace dimred::data {

/// Images made from their index, decoded into `scratch` as a JPEG reader would.
struct ConstructedDataset : PlanesDataset {
  std::int64_t count = 0;
  std::int64_t broken_index = -1;          // read() throws there
  std::chrono::microseconds read_time{0};  // of one sample

  ConstructedDataset(std::int64_t size, ImageShape shape) : PlanesDataset(shape, 7), count(size) {}

  static std::uint8_t pixel(std::int64_t index, std::int64_t place) {
    return static_cast<std::uint8_t>((index * 2654435761U + place * 40503U) >> 7);
  }

  std::int64_t size() const override { return count; }
  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    if (index == broken_index)
      throw std::runtime_error("sample " + std::to_string(index) + " is broken");
    if (read_time.count() > 0) std::this_thread::sleep_for(read_time);
    scratch.resize(static_cast<std::size_t>(image_shape.size()));
    for (std::size_t i = 0; i < scratch.size(); ++i) {
      scratch[i] = pixel(index, static_cast<std::int64_t>(i));
    }
    return sample(scratch, index % 7);
  }
  std::string description() const override { return "constructed"; }
};

}  // namespace dimred::data
