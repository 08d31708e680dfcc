#include "engine/device/device.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "cuda/cuda.h"
#include "support/errors.h"

namespace dimred::engine {
namespace {

std::string cuda_version() {
  const auto version = at::detail::getCUDAHooks().versionCUDART();
  return formatted("{}.{}", version / 1000, version % 1000 / 10);
}

/// Keeps what torch warns of.
class Listener final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { text = warning.msg(); }
  std::string text;
};

/// Torch's warning at its first count of devices: the reason why it cannot use the driver. Torch
/// would print it, in several lines, beside our one.
const std::string& counting_warning() {
  static const std::string text = [] {
    Listener listener;
    const c10::WarningUtils::WarningHandlerGuard guard(&listener);
    torch::cuda::device_count();
    return listener.text;
  }();
  return text;
}

/// Why torch sees no device.
std::string reason() {
  if (!cuda::library().absence.empty()) return cuda::library().absence;
  if (!counting_warning().empty()) return reason_of_warning(counting_warning(), cuda_version());
  if (const auto* visible = std::getenv("CUDA_VISIBLE_DEVICES"))
    return formatted("CUDA_VISIBLE_DEVICES = '{}' hides all devices of the driver", visible);
  return "libcuda.so.1 is there, but the driver shows no device";
}

}  // namespace

std::string reason_of_warning(const std::string& warning, const std::string& cuda) {
  constexpr std::string_view head = "CUDA initialization: ";
  const auto begin = warning.starts_with(head) ? head.size() : 0;
  const auto end = std::min(warning.find(". Please update"), warning.find('\n'));
  const auto said = warning.substr(begin, end == std::string::npos ? end : end - begin);
  const bool old = said.find("too old") != std::string::npos;
  return old ? formatted("{}; torch needs a driver for CUDA {}", said, cuda) : said;
}

namespace {

/// cuda where there is a device, cpu where there is none; throws for one that cannot be used.
std::string automatic_device() {
  if (cuda::library().failed || !counting_warning().empty())
    fail_environment("[device] cannot use the GPU: {}; give --device cpu to run without it",
                     reason());
  return torch::cuda::is_available() ? "cuda" : "cpu";
}

std::optional<torch::Device> device_of(const std::string& text) {
  try {
    return torch::Device(text);
  } catch (const c10::Error&) {  // the caller says it
    return std::nullopt;
  }
}

}  // namespace

torch::Device cuda_device(const std::string& text, int count, int local_rank) {
  torch::Device device(text);
  if (!device.has_index() && text == "cuda")
    device.set_index(static_cast<torch::DeviceIndex>(local_rank % count));
  // torch keeps an index modulo 256.
  const bool exists = (text == "cuda" || device.str() == text) && device.index() < count;
  require_environment(exists,
                      "[device] the CUDA device number {} does not exist; the number of devices is "
                      "{}, and numbers begin at 0; received --device {}",
                      text.substr(text.find(':') + 1),
                      count,
                      text);
  return device;
}

torch::Device parse_device(const std::string& text, int local_rank) {
  const auto chosen = text == "auto" ? automatic_device() : text;
  const auto device = device_of(chosen);
  require(device && (device->is_cpu() || device->is_cuda()),
          "[device] needs auto, cpu, cuda or cuda:N, received {}",
          text);
  if (device->is_cpu()) return *device;
  if (!counting_warning().empty() || !torch::cuda::is_available())
    fail_environment("[device] no CUDA device was found for --device {}: {}", text, reason());
  return cuda_device(chosen, static_cast<unsigned char>(torch::cuda::device_count()), local_rank);
}

void make_deterministic() {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setDeterministicMkldnn(true);
}

torch::Device take_device(const std::string& text, int local_rank, bool tf32, bool autotune) {
  const auto device = parse_device(text, local_rank);
  if (!device.is_cuda()) return device;
  at::accelerator::setDeviceIndex(device.index());
  auto& context = at::globalContext();
  context.setAllowTF32CuBLAS(tf32);
  context.setAllowTF32CuDNN(tf32);
  context.setDeterministicCuDNN(!autotune);
  context.setBenchmarkCuDNN(autotune);
  return device;
}

}  // namespace dimred::engine
