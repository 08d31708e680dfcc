#pragma once

#include <torch/types.h>

#include <span>
#include <utility>
#include <vector>

#include "engine/device/device_stream.h"
#include "stage2/product.h"

namespace dimred::stage2 {

/// g_k = P g. basis [k x columns] float32 or bfloat16, rows contiguous, vector [columns] float32,
/// both this rank's columns on one device; returns [k] float64 partial sums (the caller adds them
/// over ranks). Deterministic: sums over fixed blocks of columns, added in order, for any number of
/// threads. bfloat16 is widened as it is read: the result is that of the same values in float32, to
/// rounding. Throws std::invalid_argument for another number of columns, or on the host for values
/// with gaps. Cost: one read of P (4 or 2 k columns bytes) and of the vector. A device's bounds:
/// projection_device.h.
std::vector<double> project(const torch::Tensor& basis, const torch::Tensor& vector);

/// (P' first, P' second) [columns] float32 each, from coefficients [k]; ONE read of P.
std::pair<torch::Tensor, torch::Tensor> back_project(const torch::Tensor& basis,
                                                     std::span<const double> first,
                                                     std::span<const double> second);

/// a'b in float64 over fixed blocks, deterministic for any number of threads.
double inner_product(const torch::Tensor& a, const torch::Tensor& b);

/// P v and every o'v of each product, one product after the other, by project() and
/// inner_product(). On a device the host waits once for all products.
std::vector<double> project(const std::vector<Product>& products);
/// The projection [numbers] in float64, under way on a device.
engine::HostCopy start_project(const std::vector<Product>& products);

}  // namespace dimred::stage2
