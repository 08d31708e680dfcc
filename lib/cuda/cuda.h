#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace c10d {
class Backend;
}
namespace dimred::distributed {
struct GroupOptions;
}
namespace dimred::engine {
class DeviceGraph;
}
namespace dimred::stage2::fused {
struct Products;
struct Advance;
}  // namespace dimred::stage2::fused

// What dimred does by CUDA itself lies in a library of its own, libdimred_cuda.so, which needs
// PyTorch's CUDA libraries. They take longer to load than all others together, and 64 programs that
// start at once on few cores wait for one another then; so a program loads them at its start where
// there is a driver, and runs without them elsewhere.
namespace dimred::cuda {

/// The library's functions; null where it was built without nvcc (kernels) or NCCL.
struct Functions {
  std::size_t size;  // of this, so that a library of another version is noticed
  /// engine/device/device_graph.h has it.
  std::function<std::unique_ptr<engine::DeviceGraph>()> (*device_graphs)(torch::Device);
  /// distributed/backends.h has it.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl)(const distributed::GroupOptions&);
  /// launch() of stage2/fused_cuda.h.
  void (*project)(const stage2::fused::Products&, void* stream);
  void (*advance)(const stage2::fused::Advance&, void* stream);
};

/// The library's functions, or why they are not there.
struct Library {
  const Functions* functions = nullptr;
  std::string absence;
  bool failed = false;  // it is there, and so is the driver, but it cannot be loaded
};

/// The library of this program: libdimred_cuda.so in lib/ beside its bin/. It is loaded before
/// main() where the driver is: PyTorch asks for its CUDA part once and keeps the answer.
const Library& library();

/// Loads one from a file.
Library load(const std::filesystem::path& file);

}  // namespace dimred::cuda
