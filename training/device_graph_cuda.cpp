#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "support/errors.h"
#include "training/device_graph.h"

namespace dimred::training {
namespace {

/// The first line: torch's messages go on with a stack.
std::string reason_of(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

class CudaGraph final : public DeviceGraph {
 public:
  explicit CudaGraph(torch::Device device) : device_(device) {
    const c10::cuda::CUDAGuard guard(device_);
    if (c10::cuda::getCurrentCUDAStream() == c10::cuda::getDefaultCUDAStream())
      c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool());
  }

  void record(const std::function<void()>& work) override {
    const c10::cuda::CUDAGuard guard(device_);
    c10::cuda::getCurrentCUDAStream().synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();  // the graph has memory of its own
    try {
      // Other threads go on allocating pinned memory meanwhile.
      graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
      work();
      graph_.capture_end();
    } catch (const std::exception& error) {
      end_capture();
      throw std::runtime_error(reason_of(error));
    }
  }

  void replay() override { graph_.replay(); }

 private:
  /// After a failure: the stream must leave the capture.
  void end_capture() {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {  // it was invalid, and has ended
      static_cast<void>(cudaGetLastError());
    }
    graph_.reset();
  }

  torch::Device device_;
  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::unique_ptr<DeviceGraph> make_device_graph(torch::Device device) {
  if (!device.is_cuda()) return nullptr;
  return std::make_unique<CudaGraph>(device);
}

}  // namespace dimred::training
