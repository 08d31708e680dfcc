#include "engine/device/pinned_memory.h"

#include <c10/core/DeviceGuard.h>

#include <mutex>
#include <unordered_map>

namespace dimred::engine {
namespace {

class PinnedMemory : public std::pmr::memory_resource {
 public:
  explicit PinnedMemory(torch::Device device) : device_(device) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t /*alignment*/) override {
    const c10::DeviceGuard guard(device_);  // else of this thread's device, where nothing is ours
    const auto options = torch::TensorOptions(torch::kUInt8).pinned_memory(true);
    auto tensor = torch::empty({static_cast<std::int64_t>(bytes)}, options);
    const std::lock_guard lock(mutex_);
    return tensors_.emplace(tensor.data_ptr(), tensor).first->first;
  }

  void do_deallocate(void* memory, std::size_t /*bytes*/, std::size_t /*alignment*/) override {
    const std::lock_guard lock(mutex_);
    tensors_.erase(memory);
  }

  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  torch::Device device_;
  std::mutex mutex_;
  std::unordered_map<void*, torch::Tensor> tensors_;
};

}  // namespace

std::shared_ptr<std::pmr::memory_resource> pinned_memory(torch::Device device) {
  return std::make_shared<PinnedMemory>(device);
}

}  // namespace dimred::engine
