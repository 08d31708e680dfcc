#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/passes/gradient.h"
#include "tests/tools/planes_dataset.h"

namespace dimred::models {
struct Network;
}

namespace dimred::engine {

/// Random images in two classes that differ in brightness; no files.
class ToyData final : public data::PlanesDataset {
 public:
  explicit ToyData(std::int64_t size);
  std::int64_t size() const override { return size_; }
  data::Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override;
  std::string description() const override { return "toy"; }

 private:
  std::int64_t size_;
  std::vector<std::uint8_t> pixels_;
};

/// One rank that trains `network`, a DropoutNet where there is none, on 96 toy images.
Setup toy_setup(models::Precision precision,
                const std::shared_ptr<models::Network>& network = nullptr);

data::Batch first_batch(const Setup& setup);

/// Passes that are waited for at once.
inline BatchResult loss_and_gradient(Setup& setup,
                                     const models::Minibatch& batch,
                                     std::int64_t global_count,
                                     ForwardKey key,
                                     GradientBuckets* buckets = nullptr) {
  return start_loss_and_gradient(setup, batch, global_count, key, buckets).get();
}
inline BatchResult loss_only(Setup& setup, const models::Minibatch& batch, ForwardKey key) {
  return start_loss(setup, batch, key).get();
}

}  // namespace dimred::engine
