#include "training/device.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/cuda.h>

#include <fstream>
#include <optional>

#include "support/errors.h"

namespace dimred::training {
namespace {

std::string cuda_version() {
  const auto version = at::detail::getCUDAHooks().versionCUDART();
  return concat(version / 1000, '.', version % 1000 / 10);
}

/// Why torch sees no device.
std::string reason() {
  if (!at::detail::getCUDAHooks().hasCUDART()) return "this torch was built without CUDA";
  std::ifstream driver("/proc/driver/nvidia/version");
  std::string line;
  if (!std::getline(driver, line)) return "no NVIDIA driver is loaded";
  return concat("the driver (",
                line,
                ") shows none to CUDA ",
                cuda_version(),
                ": it is too old, or CUDA_VISIBLE_DEVICES hides them");
}

}  // namespace

torch::Device parse_device(const std::string& text, int local_rank) {
  constexpr auto place = "training::device";
  std::optional<torch::Device> device;
  try {
    device.emplace(text);
  } catch (const c10::Error&) {  // said below
  }
  require(device && (device->is_cpu() || device->is_cuda()),
          place,
          "needs cpu, cuda or cuda:N, received ",
          text);
  if (device->is_cpu()) return *device;
  require_environment(torch::cuda::is_available(),
                      place,
                      "no CUDA device was found for --device ",
                      text,
                      ": ",
                      reason());
  const int count = static_cast<unsigned char>(torch::cuda::device_count());
  if (!device->has_index()) device->set_index(static_cast<torch::DeviceIndex>(local_rank % count));
  require_environment(device->index() < count,
                      place,
                      "there is no CUDA device ",
                      static_cast<int>(device->index()),
                      ", only ",
                      count,
                      ", counted from 0; received --device ",
                      text);
  return *device;
}

}  // namespace dimred::training
