#include "training/device/device.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/cuda.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "cuda/cuda.h"
#include "support/errors.h"

namespace dimred::training {
namespace {

std::string cuda_version() {
  const auto version = at::detail::getCUDAHooks().versionCUDART();
  return formatted("{}.{}", version / 1000, version % 1000 / 10);
}

/// Why torch sees no device.
std::string reason() {
  if (!cuda::library().absence.empty()) return cuda::library().absence;
  std::ifstream driver("/proc/driver/nvidia/version");
  std::string line;
  if (!std::getline(driver, line))
    return "libcuda.so.1 is there, but the kernel has no NVIDIA driver";
  return formatted(
      "the driver ({}) shows none to CUDA {}: it is too old, or CUDA_VISIBLE_DEVICES hides them",
      line,
      cuda_version());
}

}  // namespace

torch::Device parse_device(const std::string& text, int local_rank) {
  std::optional<torch::Device> device;
  const bool automatic = text == "auto";
  try {
    device.emplace(automatic ? (torch::cuda::is_available() ? "cuda" : "cpu") : text);
  } catch (const c10::Error&) {  // said below
  }
  require(device && (device->is_cpu() || device->is_cuda()),
          "[training::device] needs auto, cpu, cuda or cuda:N, received {}",
          text);
  require_environment(!automatic || !cuda::library().failed,
                      "[training::device] cannot use the GPU: {}; --device cpu goes on without",
                      cuda::library().absence);
  if (device->is_cpu()) return *device;
  require_environment(torch::cuda::is_available(),
                      "[training::device] no CUDA device was found for --device {}: {}",
                      text,
                      reason());
  const int count = static_cast<unsigned char>(torch::cuda::device_count());
  if (!device->has_index()) device->set_index(static_cast<torch::DeviceIndex>(local_rank % count));
  require_environment(device->index() < count,
                      "[training::device] there is no CUDA device {}, only {}, counted from 0; "
                      "received --device {}",
                      static_cast<int>(device->index()),
                      count,
                      text);
  return *device;
}

void make_deterministic() {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setDeterministicMkldnn(true);
}

void choose_cuda_algorithms(bool tf32, bool autotune) {
  auto& context = at::globalContext();
  context.setAllowTF32CuBLAS(tf32);
  context.setAllowTF32CuDNN(tf32);
  context.setDeterministicCuDNN(!autotune);
  context.setBenchmarkCuDNN(autotune);
}

}  // namespace dimred::training
