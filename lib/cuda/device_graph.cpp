#include "cuda/device_graph.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "support/text.h"

namespace dimred::cuda {
namespace {

/// torch's graph, which can leave a capture that has failed: in torch 2.11 capture_end() then
/// throws before the random state and both allocators' pools are given back, and neither could be
/// used again.
class TorchGraph : public at::cuda::CUDAGraph {
 public:
  void leave_capture() {
    try {
      capture_end();  // of a sound capture that the work ended by an exception of its own
    } catch (const std::exception&) {
      static_cast<void>(cudaGetLastError());
      for (auto& [state, increment] : captured_generator_states_) state->capturing_ = false;
      auto* host = at::getHostAllocator(at::kCUDA);
      unless_done(
          [&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(capture_dev_, mempool_id_); });
      unless_done([&] { host->end_allocate_to_pool(mempool_id_); });
      if (!capture_ended_) {
        c10::cuda::CUDACachingAllocator::releasePool(capture_dev_, mempool_id_);
        host->release_pool(mempool_id_);
      }
    }
    reset();
  }

 private:
  template <class Work>
  static void unless_done(const Work& work) {
    try {
      work();
    } catch (const std::exception&) {  // capture_end() had come so far
    }
  }
};

class CudaGraph final : public engine::DeviceGraph {
 public:
  CudaGraph(torch::Device device, at::cuda::MempoolId_t pool) : device_(device), pool_(pool) {
    const c10::cuda::CUDAGuard guard(device_);
    const auto before = c10::cuda::getCurrentCUDAStream();
    if (before != c10::cuda::getDefaultCUDAStream()) return;
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool());
    before.synchronize();  // streams of the pool do not wait for the default one
  }

  void record(const std::function<void()>& work) override {
    const c10::cuda::CUDAGuard guard(device_);
    bool begun = false;
    try {
      c10::cuda::getCurrentCUDAStream().synchronize();
      c10::cuda::CUDACachingAllocator::emptyCache();  // the graph has memory of its own
      // Other threads go on allocating pinned memory meanwhile.
      graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
      begun = true;
      work();
      graph_.capture_end();
    } catch (const std::exception& error) {
      const auto reason = head_line(error.what());
      if (begun) graph_.leave_capture();
      throw std::runtime_error(reason);
    }
  }

  void replay() override { graph_.replay(); }

 private:
  torch::Device device_;
  at::cuda::MempoolId_t pool_;
  TorchGraph graph_;
};

}  // namespace

engine::MakeGraph device_graphs(torch::Device device) {
  return [device, pool = at::cuda::graph_pool_handle()] {
    return std::make_unique<CudaGraph>(device, pool);
  };
}

}  // namespace dimred::cuda
