#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dimred::data {

/// Which of many things have been done already; safe from several threads.
class Marks {
 public:
  explicit Marks(std::size_t count) : words_((count + 63) / 64) {}
  bool has(std::size_t i) const {
    return (words_[i / 64].load(std::memory_order_relaxed) >> i % 64 & 1) != 0;
  }
  void set(std::size_t i) const {
    words_[i / 64].fetch_or(std::uint64_t{1} << i % 64, std::memory_order_relaxed);
  }

 private:
  mutable std::vector<std::atomic<std::uint64_t>> words_;
};

}  // namespace dimred::data
