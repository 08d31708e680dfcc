#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace dimred::pca {

/// Allocates whole cache lines.
template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  explicit LineAllocator(const LineAllocator<U>&) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(64)));
  }
  void deallocate(T* values, std::size_t) { ::operator delete(values, std::align_val_t(64)); }
  bool operator==(const LineAllocator&) const = default;
};

/// Buffers that kernels read and write.
template <class T>
using Lines = std::vector<T, LineAllocator<T>>;

}  // namespace dimred::pca
