#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/layout.h"
#include "models/objective.h"

namespace dimred::models {

/// All trainable weights of an objective as views into ONE vector, gradients in another, floating
/// and integer buffers in one vector each; what is frozen in another, which no gradient has. An
/// optimiser step, a snapshot or a projection is one pass.
struct FlatVectors {
  layout::Layout layout;
  torch::Tensor weights;         // [memory_size] float32; every parameter is a view into it
  torch::Tensor gradient;        // [memory_size] float32; every .grad is a view into it
  torch::Tensor buffers;         // [all floating buffers] float32, file order
  torch::Tensor counters;        // [all integer buffers] int64
  layout::Layout frozen_layout;  // of what freeze() took out; no entries: nothing
  torch::Tensor frozen;          // [its memory_size] float32; viewed as the weights are
};

/// Moves the objective's parameters and buffers into flat vectors on `device` and makes them views.
/// With channels_last, 4-D parameters are channels_last views of their segment.
/// Weight decay is off for one-dimensional parameters (biases, BatchNorm).
/// Call once, before the first backward pass. Throws std::invalid_argument for a parameter that is
/// not float32.
FlatVectors flatten(Objective& objective, layout::MemoryFormat format, torch::Device device);

/// Weights in file order [file_size], on the host.
std::vector<float> to_file(const layout::Layout& layout, const torch::Tensor& memory);
/// Copies file order [file_size] into a memory vector. Throws std::invalid_argument on another
/// length.
void from_file(const layout::Layout& layout, std::span<const float> file, torch::Tensor& memory);

/// A flat host copy of any contiguous float32 / int64 vector, and back.
std::vector<float> to_vector(const torch::Tensor& values);
std::vector<std::int64_t> to_integers(const torch::Tensor& values);

/// XXH3-128 of a contiguous tensor's bytes, in memory order.
std::string digest_of(const torch::Tensor& values);
void assign(torch::Tensor& target, std::span<const float> values);
void assign(torch::Tensor& target, std::span<const std::int64_t> values);

/// All that a file holds of a network: weights in file order, buffers and counters.
void assign(FlatVectors& flat,
            std::span<const float> weights,
            std::span<const float> buffers,
            std::span<const std::int64_t> counters);

}  // namespace dimred::models
