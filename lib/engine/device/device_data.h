#pragma once

#include <torch/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/order.h"
#include "data/preprocess.h"

// Data sets that lie on the device: batches are gathered, augmented and normalised there.
namespace dimred::engine {

struct DeviceData {
  torch::Tensor pixels;                         // [size, channels, height, width] uint8
  torch::Tensor labels;                         // [size] int64
  std::map<std::int64_t, std::string> damaged;  // samples that are used all the same: what is wrong
};

/// A data set whose batches the device can make. Findings of the copy there come to the first
/// batches that want it.
struct DeviceSet {
  std::shared_ptr<const data::Dataset> set;
  bool must = false;  // else the loader makes the batches where the copy fails
  bool tried = false;
  std::optional<DeviceData> data;
};

/// Why batches of the set cannot be made on a device; empty when they can: images of one size that
/// need no decoding, together within `memory` bytes, without crops of a recipe and changes of
/// colour.
std::string why_not_on_device(const data::Dataset& dataset,
                              const data::Preprocessing& preprocessing,
                              std::int64_t memory);

/// Copies the set. Throws what reading a sample throws. Cost: size x channels x height x width
/// bytes on the device, and as many on the host meanwhile.
DeviceData device_data(const data::Dataset& dataset, torch::Device device);

/// Which samples come at some positions of an epoch's order and where each takes its pixels, on the
/// device: drawn for a whole epoch at once, so that a step sends nothing.
struct DevicePlan {
  torch::Tensor indices;        // [count] int64
  torch::Tensor rows, columns;  // [count] int64 shifts, data::Augmentation; undefined: none at all
  torch::Tensor flips;          // [count] bool
};

/// `positions` in the order in which they are used.
DevicePlan device_plan(const std::vector<std::int64_t>& positions,
                       const data::Order& order,
                       const data::Preprocessing& preprocessing,
                       std::int64_t epoch,
                       torch::Device device);

/// pixel_table() as a tensor [channels x 256].
torch::Tensor device_table(const data::Preprocessing& preprocessing, torch::Device device);

/// Images [count, channels, height, width] float32 of the plan's samples [begin, begin + count),
/// bit for bit as data::prepare makes them; channels_last in memory where they are augmented.
torch::Tensor device_images(const DeviceData& data,
                            const torch::Tensor& table,
                            const DevicePlan& plan,
                            std::int64_t begin,
                            std::int64_t count);

}  // namespace dimred::engine
