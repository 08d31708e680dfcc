#pragma once

#include <ucontext.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <stdexcept>
#include <vector>

// What a kernel needs to run on a processor: include this, then a .cuh, in one source file. A
// block's threads take turns, each until it comes to a barrier. Slow, single-threaded, and strict:
// a barrier that some threads never reach, or a wide access off its boundary, throws.
namespace dimred::host_grid {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

/// A block at work; the threads are fibers of this thread.
class Block {
 public:
  static Block*& current() {
    static Block* block = nullptr;
    return block;
  }

  Block(unsigned threads, const std::function<void()>& body)
      : body_(body), fibers_(threads), stacks_(threads * kStack), exchanged_(threads) {
    current() = this;
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { current() = nullptr; }

  void run();

  /// Until all threads, or all of this one's warp, have come.
  void wait(bool whole_block) {
    fibers_[thread_].state = whole_block ? State::at_block_barrier : State::at_warp_barrier;
    yield();
  }

  /// What the lane `delta` higher in the warp gives (the last ones keep their own).
  template <class Value>
  Value shuffle_down(Value value, unsigned delta) {
    const auto turn = static_cast<std::size_t>(fibers_[thread_].shuffles++ % 2);
    exchanged_[thread_][turn] = static_cast<double>(value);
    wait(false);
    const bool inside = thread_ % kWarp + delta < kWarp;
    return inside ? static_cast<Value>(exchanged_[thread_ + delta][turn]) : value;
  }

 private:
  static constexpr unsigned kWarp = 32;
  static constexpr std::size_t kStack = 64 << 10;
  enum class State { ready, at_block_barrier, at_warp_barrier, done };
  struct Fiber {
    ucontext_t start{};
    std::array<void*, 5> at{};
    State state = State::ready;
    bool started = false;
    int shuffles = 0;
  };

  static void enter();
  void resume(unsigned thread);
  void release(unsigned begin, unsigned end, State state);

  // The compiler's own jumps: swapcontext asks the kernel each time, and some libraries' longjmp
  // refuses other stacks. They may not stand in the function that they return to.
  [[gnu::noinline]] void yield() {
    if (__builtin_setjmp(fibers_[thread_].at.data()) == 0) to_scheduler();
  }
  [[gnu::noinline]] void to_scheduler() { __builtin_longjmp(scheduler_.data(), 1); }
  [[gnu::noinline]] void to_fiber(Fiber& fiber) {
    if (fiber.started) __builtin_longjmp(fiber.at.data(), 1);
    fiber.started = true;
    ::getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = stacks_.data() + thread_ * kStack;
    fiber.start.uc_stack.ss_size = kStack;
    ::makecontext(&fiber.start, &Block::enter, 0);
    ::setcontext(&fiber.start);
  }

  const std::function<void()>& body_;
  std::vector<Fiber> fibers_;
  std::vector<char> stacks_;
  std::array<void*, 5> scheduler_{};
  std::vector<std::array<double, 2>> exchanged_;  // of each thread, by turns
  unsigned thread_ = 0;
  std::exception_ptr failure_;
};

template <class Wide>
const Wide& on_boundary(const Wide* from) {
  if (reinterpret_cast<std::uintptr_t>(from) % alignof(Wide) != 0)
    throw std::logic_error("a wide access off its boundary");
  return *from;
}

}  // namespace dimred::host_grid

// CUDA's names.
// NOLINTBEGIN
#define __device__
#define __global__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline dimred::host_grid::Index threadIdx, blockIdx;

inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
template <class Value>
Value __ldcs(const Value* from) {
  return dimred::host_grid::on_boundary(from);
}
inline float __uint_as_float(unsigned bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline void __syncthreads() { dimred::host_grid::Block::current()->wait(true); }
template <class Value>
Value __shfl_down_sync(unsigned, Value value, unsigned delta) {
  return dimred::host_grid::Block::current()->shuffle_down(value, delta);
}
template <class Value>
void atomicMin(Value* at, Value value) {
  if (value < *at) *at = value;
}
// NOLINTEND

namespace dimred::host_grid {

inline void Block::run() {
  for (auto& fiber : fibers_) fiber = {};
  unsigned done = 0;
  while (done < fibers_.size()) {
    bool moved = false;
    for (unsigned i = 0; i < fibers_.size(); ++i) {
      if (fibers_[i].state != State::ready) continue;
      resume(i);
      moved = true;
      if (failure_) std::rethrow_exception(failure_);
      if (fibers_[i].state == State::done) ++done;
    }
    if (!moved) throw std::logic_error("a barrier that some threads never reach");
    release(0, static_cast<unsigned>(fibers_.size()), State::at_block_barrier);
    for (unsigned i = 0; i < fibers_.size(); i += kWarp)
      release(i, i + kWarp, State::at_warp_barrier);
  }
}

inline void Block::release(unsigned begin, unsigned end, State state) {
  for (unsigned i = begin; i < end; ++i)
    if (fibers_[i].state != state) return;
  for (unsigned i = begin; i < end; ++i) fibers_[i].state = State::ready;
}

inline void Block::enter() {
  Block& block = *current();
  try {
    block.body_();
  } catch (...) {
    block.failure_ = std::current_exception();
  }
  block.fibers_[block.thread_].state = State::done;
  block.to_scheduler();
}

inline void Block::resume(unsigned thread) {
  thread_ = thread;
  threadIdx.x = thread;
  if (__builtin_setjmp(scheduler_.data()) == 0) to_fiber(fibers_[thread]);
}

/// Runs every block of a grid, one after another.
inline void launch(Index grid, unsigned threads, const std::function<void()>& body) {
  Block block(threads, body);
  for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) block.run();
}

}  // namespace dimred::host_grid
