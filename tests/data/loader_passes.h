#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "data/loader.h"
#include "tests/data/constructed_dataset.h"

namespace dimred::data {

inline const ImageShape small_shape{2, 4, 3};

inline Preprocessing augmented() {
  return {.mean = {0.3, 0.4}, .deviation = {0.2, 0.5}, .pad = 1, .flip = true, .seed = 21};
}

struct CountingDataset : ConstructedDataset {
  using ConstructedDataset::ConstructedDataset;
  mutable std::atomic<int> reads = 0;
  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    ++reads;
    return ConstructedDataset::read(index, scratch);
  }
  void wait_for_reads(int count) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (reads < count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  }
};

/// The rest of the epoch.
inline std::vector<Batch> drain(Loader& loader) {
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  return batches;
}

/// An epoch from a step on.
inline std::vector<Batch> pass(const ConstructedDataset& dataset,
                               const LoaderOptions& options,
                               std::int64_t epoch = 2,
                               std::int64_t first_step = 0) {
  const Order order{.seed = 9, .size = dataset.size()};
  Loader loader(dataset, order, augmented(), options, epoch, first_step);
  return drain(loader);
}

inline void append(Batch& whole, const Batch& part) {
  whole.images.insert(whole.images.end(), part.images.begin(), part.images.end());
  whole.labels.insert(whole.labels.end(), part.labels.begin(), part.labels.end());
  whole.indices.insert(whole.indices.end(), part.indices.begin(), part.indices.end());
}

inline void expect_equal(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.images, b.images);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.indices, b.indices);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.position, b.position);
  EXPECT_EQ(a.global_count, b.global_count);
}

}  // namespace dimred::data
