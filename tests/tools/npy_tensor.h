#pragma once

#include <torch/types.h>

#include "checkpoints/npy.h"
#include "support/atomic_file.h"

namespace dimred::tests {

/// A C-order float32 .npy as a tensor.
inline torch::Tensor load_npy(const std::filesystem::path& path) {
  const auto header = checkpoints::read_npy_header(path);
  TORCH_CHECK(
      header.item_bytes == 4 && !header.fortran_order, path.string(), " is not C-order float32");
  auto tensor = torch::empty(header.shape, torch::kFloat32);
  const InputFile file(path);
  file.read(
      header.data_offset,
      {static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.nbytes())});
  return tensor;
}

inline void save_npy(const std::filesystem::path& path, const torch::Tensor& values) {
  const auto host = values.contiguous();
  const auto header = checkpoints::npy_header_bytes(host.sizes().vec());
  AtomicFile file(path);
  file.append(std::as_bytes(std::span(header)));
  file.append({static_cast<const std::byte*>(host.const_data_ptr()),
               static_cast<std::size_t>(host.nbytes())});
  file.commit();
}

}  // namespace dimred::tests
