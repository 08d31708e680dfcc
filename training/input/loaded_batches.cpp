#include "training/input/loaded_batches.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/StreamGuard.h>

#include <utility>

namespace dimred::training {
namespace {

class LoadedBatches final : public Batches {
 public:
  LoadedBatches(const Setup& setup, std::unique_ptr<data::Loader> loader)
      : setup_(setup), loader_(std::move(loader)) {}

  std::optional<DeviceBatch> next() override {
    auto batch = std::exchange(ahead_, std::nullopt);
    if (!batch) batch = load();
    if (batch) give_to_current_stream(*batch);
    return batch;
  }

  void prefetch() override {
    if (!ahead_ && loader_->is_ready()) ahead_ = load();
  }

  void recycle(DeviceBatch batch) override {
    batch.copied.wait();
    loader_->recycle(std::move(batch.buffers));
    if (setup_.model.device.is_cpu()) return;
    // Copies do not wait for the current stream: who never waits for it either would fill the
    // device's memory with batches.
    before_.wait();
    before_ = StreamEvent(current_stream());
  }
  double seconds_waited() const override { return loader_->seconds_waited(); }
  data::LoaderReport report() const override {
    auto report = loader_->report();
    if (ahead_) --report.batches;
    return report;
  }

 private:
  std::optional<DeviceBatch> load() {
    auto loaded = loader_->next();
    if (!loaded) return {};
    DeviceBatch batch{.tensors = {},
                      .count = loaded->count(),
                      .global_count = loaded->global_count,
                      .buffers = std::move(*loaded)};
    if (setup_.model.device.is_cpu()) {
      batch.tensors = to_minibatch(setup_.model, batch.buffers);
      return batch;
    }
    const auto aside = copy_stream(setup_.model.device, Direction::to_device);
    const c10::StreamGuard guard(aside);
    batch.tensors = to_minibatch(setup_.model, batch.buffers, /*wait=*/false);
    batch.copied = StreamEvent(aside);
    return batch;
  }

  void give_to_current_stream(const DeviceBatch& batch) const {
    if (setup_.model.device.is_cpu()) return;
    const auto current = current_stream();
    batch.copied.block(current);
    // Their memory is not given away before the current stream has done with it.
    batch.tensors.images.record_stream(current);
    batch.tensors.labels.record_stream(current);
  }

  c10::Stream current_stream() const {
    return at::accelerator::getCurrentStream(setup_.model.device.index());
  }

  const Setup& setup_;
  std::unique_ptr<data::Loader> loader_;
  StreamEvent before_;  // behind the use of the batch that was given back last
  /// Memory that is dropped while it is copied stays torch's until the copy is done: both
  /// allocators have the copy's stream on record.
  std::optional<DeviceBatch> ahead_;
};

}  // namespace

std::unique_ptr<Batches> loaded_batches(const Setup& setup, std::unique_ptr<data::Loader> loader) {
  return std::make_unique<LoadedBatches>(setup, std::move(loader));
}

}  // namespace dimred::training
