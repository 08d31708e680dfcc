#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>

// What device_cuda.cu holds of the CUDA runtime, each freeing itself.
namespace dimred::pca {

[[noreturn]] inline void fail(const std::string& what) {
  throw std::runtime_error("[pca::device] " + what);
}

inline void check_call(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  fail(std::string(call) + ": " + cudaGetErrorString(code) + " (" + cudaGetErrorName(code) + ")");
}

// What to do where memory is short.
constexpr const char* kFewerTiles =
    "a smaller --tile_mb, or fewer --threads, lowers it, down to two tiles";
constexpr const char* kFewerRows =
    "fewer snapshots lower it (rows of --kind random: fewer --components)";
constexpr const char* kAlone = "does another program, or rank, use the same device?";

inline void check_memory(cudaError_t code, const char* call, std::size_t bytes, const char* help) {
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it is not left for the next call
    fail(std::string(call) + ": out of memory, needs " + std::to_string((bytes >> 20) + 1) +
         " MiB more; " + help);
  }
  check_call(code, call);
}

/// On the device, not initialised.
template <class T>
class DeviceArray {
 public:
  DeviceArray(std::int64_t count, const char* help)
      : bytes_(static_cast<std::size_t>(count) * sizeof(T)) {
    if (count > 0) check_memory(cudaMalloc(&data_, bytes_), "cudaMalloc", bytes_, help);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* data() const { return static_cast<T*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

/// Page-locked on the host, which the device copies from and to by itself.
template <class T>
class PinnedArray {
 public:
  PinnedArray(std::int64_t count, const char* help) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (count > 0)
      check_memory(
          cudaHostAlloc(&data_, bytes, cudaHostAllocPortable), "cudaHostAlloc", bytes, help);
  }
  ~PinnedArray() { cudaFreeHost(data_); }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  T* data() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
};

class Event;

/// Work in order, beside other streams.
class Stream {
 public:
  Stream() {
    check_call(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  void synchronize() const { check_call(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }
  inline void wait_for(const Event& event) const;

 private:
  cudaStream_t stream_ = nullptr;
};

/// A point in a stream's work; never recorded, it is passed already.
class Event {
 public:
  Event() {
    check_call(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync),
               "cudaEventCreate");
  }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }
  void record(const Stream& stream) {
    check_call(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
  }
  void wait() const { check_call(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

 private:
  cudaEvent_t event_ = nullptr;
};

inline void Stream::wait_for(const Event& event) const {
  check_call(cudaStreamWaitEvent(stream_, event.get(), 0), "cudaStreamWaitEvent");
}

}  // namespace dimred::pca
