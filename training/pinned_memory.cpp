#include "training/pinned_memory.h"

#include <torch/types.h>

#include <mutex>
#include <unordered_map>

namespace dimred::training {
namespace {

class PinnedMemory : public std::pmr::memory_resource {
 private:
  void* do_allocate(std::size_t bytes, std::size_t /*alignment*/) override {
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

  std::mutex mutex_;
  std::unordered_map<void*, torch::Tensor> tensors_;
};

}  // namespace

std::shared_ptr<std::pmr::memory_resource> pinned_memory() {
  return std::make_shared<PinnedMemory>();
}

}  // namespace dimred::training
