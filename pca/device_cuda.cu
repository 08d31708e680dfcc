#include <cuda_runtime.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include "pca/device.h"
#include "pca/device_memory.cuh"
#include "pca/device_places.h"
#include "pca/device_work.cuh"

namespace dimred::pca {
namespace {

constexpr unsigned long long kNone = std::numeric_limits<unsigned long long>::max();

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Makes it this thread's device.
ChosenDevice select(const DeviceChoice& choice) {
  int driver = 0;
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorInsufficientDriver) {
    check_call(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    fail(driver == 0 ? "no NVIDIA driver was found"
                     : "the NVIDIA driver is for CUDA " + version_text(driver) +
                           ", this program needs " + version_text(CUDART_VERSION) + " or newer");
  }
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0))
    fail("no CUDA device was found");
  check_call(code, "cudaGetDeviceCount");
  const ChosenDevice device = chosen_among(count, choice);
  if (device.number < 0 || device.number >= count)
    fail("there is no CUDA device " + std::to_string(device.number) + ", only " +
         std::to_string(count) + ", counted from 0");
  check_call(cudaSetDevice(device.number), "cudaSetDevice");
  return device;
}

/// Half of each rank's part of the device's free memory.
std::int64_t bytes_for_tiles(int ranks) {
  std::size_t free = 0;
  std::size_t total = 0;
  check_call(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free / 2) / ranks;
}

/// What is the slot's own: buffers on the host and of results, and how far its last tile is.
struct Slot {
  explicit Slot(const DeviceShape& shape)
      : host_tile(shape.rows * shape.tile_columns, kFewerTiles),
        host_components(shape.components * shape.tile_columns, kFewerTiles),
        components(shape.components * shape.tile_columns, kFewerTiles) {}
  PinnedArray<float> host_tile;
  PinnedArray<float> host_components;
  DeviceArray<float> components;
  Event copied;    // host_tile may be filled
  Event computed;  // the tile's place on the device may be filled
  Event ready;     // host_components may be read
};

/// Starts kernels on a stream, one behind the other.
struct Launch {
  const Stream& stream;
  template <class... Parameters, class... Arguments>
  void operator()(const char* name,
                  const Grid& grid,
                  void (*kernel)(Parameters...),
                  const Arguments&... arguments) const {
    kernel<<<dim3(grid.x, grid.y), kThreads, 0, stream.get()>>>(arguments...);
    check_call(cudaGetLastError(), name);
  }
};

class CudaDevice final : public Device {
 public:
  /// On this thread's device.
  CudaDevice(const ChosenDevice& device, const DeviceShape& shape)
      : number_(device.number),
        shape_(shape),
        places_(shape, bytes_for_tiles(device.ranks)),
        tiles_(places_.count() * shape.rows * shape.tile_columns,
               places_.count() > shape.slots ? kAlone : kFewerTiles),
        means_(shape.tile_columns, kAlone),
        partial_(most_blocks(shape) * most_sums(shape), kFewerRows),
        total_(most_sums(shape), kFewerRows),
        combinations_(shape.rows * (shape.components + kSide), kFewerRows),
        not_finite_(1, kAlone) {
    for (std::int64_t i = 0; i < shape.slots; ++i) slots_.push_back(std::make_unique<Slot>(shape));
    // Squares above the diagonal are added as well, but never written.
    check_call(cudaMemsetAsync(partial_.data(), 0, partial_.bytes(), compute_.get()),
               "cudaMemsetAsync");
  }

  ~CudaDevice() override {
    cudaSetDevice(number_);
    cudaDeviceSynchronize();
  }

  void start_gram(bool centred) override { start(gram_pass(shape_, centred)); }

  void start_components(const std::vector<double>& combinations, std::int64_t stride) override {
    start(components_pass(shape_, stride));
    // From pageable memory, so that the call returns when it has been read.
    check_call(cudaMemcpyAsync(combinations_.data(),
                               combinations.data(),
                               static_cast<std::size_t>(shape_.rows * stride) * sizeof(double),
                               cudaMemcpyHostToDevice,
                               compute_.get()),
               "cudaMemcpyAsync");
  }

  bool keeps_tiles() const override { return places_.keeps(); }

  bool holds(const DeviceTile& tile) const override { return places_.holds(tile); }

  float* host_tile(std::int64_t slot) override {
    check_call(cudaSetDevice(number_), "cudaSetDevice");
    slot_of(slot).copied.wait();
    return slot_of(slot).host_tile.data();
  }

  void submit(std::int64_t index, const DeviceTile& tile) override {
    check_call(cudaSetDevice(number_), "cudaSetDevice");
    Slot& slot = slot_of(index);
    const std::int64_t place = places_.of(index, tile);
    float* w = tiles_.data() + place * shape_.rows * shape_.tile_columns;
    if (!holds(tile)) {
      places_.put(place, tile);
      copy_.wait_for(slot.computed);
      copy_rows(w, slot.host_tile.data(), tile.width, shape_.rows, cudaMemcpyHostToDevice, copy_);
      slot.copied.record(copy_);
      compute_.wait_for(slot.copied);
    }
    const Rows rows{w, shape_.tile_columns, static_cast<int>(shape_.rows)};
    if (pass_.combining) compute_.wait_for(slot.ready);  // P of its last tile has been copied
    work_on(Launch{compute_}, pass_, buffers(), rows, tile, slot.components.data());
    slot.computed.record(compute_);
    if (!pass_.combining) return;
    results_.wait_for(slot.computed);
    copy_rows(slot.host_components.data(),
              slot.components.data(),
              tile.width,
              shape_.components,
              cudaMemcpyDeviceToHost,
              results_);
    slot.ready.record(results_);
  }

  float* components(std::int64_t slot) override {
    check_call(cudaSetDevice(number_), "cudaSetDevice");
    slot_of(slot).ready.wait();
    return slot_of(slot).host_components.data();
  }

  DeviceSums finish() override {
    check_call(cudaSetDevice(number_), "cudaSetDevice");
    const std::int64_t size = pass_.size();
    DeviceSums sums{size, std::vector<double>(static_cast<std::size_t>(size * size)), -1};
    unsigned long long bad = kNone;
    compute_.synchronize();
    results_.synchronize();
    check_call(cudaMemcpy(&bad, not_finite_.data(), sizeof bad, cudaMemcpyDeviceToHost),
               "cudaMemcpy");
    check_call(cudaMemcpy(sums.lower.data(),
                          total_.data(),
                          sums.lower.size() * sizeof(double),
                          cudaMemcpyDeviceToHost),
               "cudaMemcpy");
    if (bad != kNone) sums.not_finite = static_cast<std::int64_t>(bad);
    return sums;
  }

 private:
  Slot& slot_of(std::int64_t index) { return *slots_[static_cast<std::size_t>(index)]; }

  Buffers buffers() const {
    return {
        means_.data(), partial_.data(), total_.data(), combinations_.data(), not_finite_.data()};
  }

  void start(const Pass& pass) {
    check_call(cudaSetDevice(number_), "cudaSetDevice");
    pass_ = pass;
    last_.record(compute_);  // a place may have been another tile's in the pass before
    copy_.wait_for(last_);
    check_call(cudaMemsetAsync(total_.data(), 0, total_.bytes(), compute_.get()),
               "cudaMemsetAsync");
    check_call(cudaMemsetAsync(not_finite_.data(), 0xFF, not_finite_.bytes(), compute_.get()),
               "cudaMemsetAsync");
  }

  /// [rows x width] of float32, both rows tile_columns apart.
  void copy_rows(float* to,
                 const float* from,
                 std::int64_t width,
                 std::int64_t rows,
                 cudaMemcpyKind kind,
                 const Stream& stream) const {
    const auto pitch = static_cast<std::size_t>(shape_.tile_columns) * sizeof(float);
    check_call(cudaMemcpy2DAsync(to,
                                 pitch,
                                 from,
                                 pitch,
                                 static_cast<std::size_t>(width) * sizeof(float),
                                 static_cast<std::size_t>(rows),
                                 kind,
                                 stream.get()),
               "cudaMemcpy2DAsync");
  }

  int number_;
  DeviceShape shape_;
  TilePlaces places_;
  Stream copy_, compute_, results_;
  DeviceArray<float> tiles_;
  DeviceArray<double> means_, partial_, total_, combinations_;
  DeviceArray<unsigned long long> not_finite_;
  std::vector<std::unique_ptr<Slot>> slots_;
  Event last_;  // of the pass before
  Pass pass_;
};

}  // namespace

std::unique_ptr<Device> open_device(const DeviceShape& shape) {
  const ChosenDevice device = select(shape.device);
  cudaFuncAttributes attributes{};
  const cudaError_t code = cudaFuncGetAttributes(&attributes, gram_blocks);
  if (code == cudaErrorNoKernelImageForDevice)
    fail("the device's architecture is not one that this program was built for");
  check_call(code, "cudaFuncGetAttributes");
  return std::make_unique<CudaDevice>(device, shape);
}

}  // namespace dimred::pca
