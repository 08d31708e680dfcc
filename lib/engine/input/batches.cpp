#include "engine/input/batches.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/record_function.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "data/shard_source.h"
#include "support/errors.h"

namespace dimred::engine {
namespace {

/// Positions of a rank's parts of all steps from `first_step` on.
std::vector<std::int64_t> own_positions(const std::vector<data::BatchPart>& parts) {
  std::vector<std::int64_t> positions;
  for (const auto& part : parts) {
    for (auto position = part.begin; position < part.end; ++position) positions.push_back(position);
  }
  return positions;
}

class BatchesOnDevice final : public Batches {
 public:
  BatchesOnDevice(const Setup& setup,
                  const data::Dataset& dataset,
                  const DeviceData& data,
                  const data::Order& order,
                  const data::Preprocessing& preprocessing,
                  const data::LoaderOptions& options,
                  std::int64_t epoch,
                  std::int64_t first_step)
      : data_(data),
        table_(device_table(preprocessing, setup.model.device)),
        format_(tensor_format(setup.model)) {
    const auto steps = data::steps_per_epoch(order.size, options.batch_size, options.drop_last);
    for (auto step = first_step; step < steps; ++step)
      parts_.push_back(
          data::batch_part(order.size, options.batch_size, step, options.rank, options.ranks));
    const auto positions = own_positions(parts_);
    plan_ = device_plan(positions, order, preprocessing, epoch, setup.model.device);
    if (!data.damaged.empty()) note_damaged(dataset, positions, order, epoch);
  }

  std::optional<DeviceBatch> next() override {
    auto batch = std::exchange(ahead_, std::nullopt);
    return batch ? std::move(batch) : make();
  }
  void prefetch() override {
    if (!ahead_) ahead_ = make();
  }
  void recycle(DeviceBatch /*batch*/) override {}
  double seconds_waited() const override { return 0; }
  data::LoaderReport report() const override {
    auto report = damaged_;
    report.batches = next_ - (ahead_ ? 1 : 0);
    report.samples = done_ - (ahead_ ? ahead_->count() : 0);
    return report;
  }

 private:
  std::optional<DeviceBatch> make() {
    if (next_ == parts_.size()) return {};
    const auto& part = parts_[next_++];
    const auto count = part.end - part.begin;
    const auto indices = plan_.indices.narrow(0, done_, count);
    DeviceBatch batch{
        .tensors = {device_images(data_, table_, plan_, done_, count).contiguous(format_),
                    data_.labels.index_select(0, indices)},
        .global_count = part.global_count,
        .key = {}};
    done_ += count;
    return batch;
  }

  void note_damaged(const data::Dataset& dataset,
                    const std::vector<std::int64_t>& positions,
                    const data::Order& order,
                    std::int64_t epoch) {
    for (const auto position : positions) {
      const auto found = data_.damaged.find(order.at(epoch, position));
      if (found == data_.damaged.end()) continue;
      ++damaged_.damaged_samples;
      data::take_note(damaged_, formatted("{}: {}", dataset.origin(found->first), found->second));
    }
  }

  const DeviceData& data_;
  torch::Tensor table_;
  torch::MemoryFormat format_;
  std::vector<data::BatchPart> parts_;
  DevicePlan plan_;

  std::optional<DeviceBatch> ahead_;
  std::size_t next_ = 0;
  std::int64_t done_ = 0;  // samples
  data::LoaderReport damaged_;
};

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
                      .global_count = loaded->global_count,
                      .key = {},
                      .buffers = std::move(*loaded)};
    if (setup_.model.device.is_cpu()) {
      batch.tensors = to_minibatch(setup_.model, batch.buffers);
      return batch;
    }
    const auto aside = copy_stream(setup_.model.device, CopyDirection::to_device);
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

/// Null where the set is not for the device.
DeviceSet* find_kept(const Setup& setup, const data::Dataset& dataset) {
  const auto is_it = [&](const auto& kept) { return kept->set.get() == &dataset; };
  const auto found = std::ranges::find_if(setup.data.on_device, is_it);
  return found == setup.data.on_device.end() ? nullptr : found->get();
}

/// The set's copy on the device; null: there is none.
const DeviceData* data_on_device(const Setup& setup, const data::Dataset& dataset) {
  auto* kept = find_kept(setup, dataset);
  if (kept == nullptr) return nullptr;
  if (!std::exchange(kept->tried, true)) {
    try {
      kept->data = device_data(dataset, setup.model.device);
    } catch (const std::exception&) {
      // There is no room, or a sample is bad, with which the loader knows what to do.
      if (kept->must) throw;
    }
  }
  return kept->data ? &*kept->data : nullptr;
}

}  // namespace

data::Order training_order(const Setup& setup) {
  return {.seed = setup.seed,
          .size = setup.data.train->size(),
          .shuffled = true,
          .sampler = setup.data.sampler};
}

data::LoaderOptions loader_options(const Setup& setup) {
  auto options = setup.data.loading;
  options.batch_size = setup.data.global_batch_size;
  options.rank = setup.communicator->rank();
  options.ranks = setup.communicator->size();
  // One channel lies the same either way.
  const bool interleaved = setup.model.memory_format == layout::MemoryFormat::channels_last &&
                           setup.data.image_shape.channels > 1;
  options.order = interleaved ? data::PixelOrder::interleaved : data::PixelOrder::planes;
  options.stopped = setup.stops.received;
  return options;
}

std::unique_ptr<Batches> loaded_batches(const Setup& setup, std::unique_ptr<data::Loader> loader) {
  return std::make_unique<LoadedBatches>(setup, std::move(loader));
}

std::unique_ptr<Batches> make_batches(const Setup& setup,
                                      const data::Dataset& dataset,
                                      const data::Order& order,
                                      const data::Preprocessing& preprocessing,
                                      const data::LoaderOptions& options,
                                      std::int64_t epoch,
                                      std::int64_t first_step) {
  if (const auto* data = data_on_device(setup, dataset))
    return std::make_unique<BatchesOnDevice>(
        setup, dataset, *data, order, preprocessing, options, epoch, first_step);
  return loaded_batches(
      setup,
      std::make_unique<data::Loader>(dataset, order, preprocessing, options, epoch, first_step));
}

std::unique_ptr<Batches> training_batches(const Setup& setup,
                                          std::int64_t epoch,
                                          std::int64_t first_step) {
  return make_batches(setup,
                      *setup.data.train,
                      training_order(setup),
                      setup.data.preprocessing,
                      loader_options(setup),
                      epoch,
                      first_step);
}

std::optional<DeviceBatch> next_on_all_ranks(const Setup& setup, Batches& batches) {
  std::optional<DeviceBatch> batch;
  bool called_off = false;
  try {
    RECORD_USER_SCOPE("wait for data");
    batch = batches.next();
  } catch (const data::ReadingStopped&) {  // by a request to this rank
    called_off = true;
  }
  if (setup.stops.agreed && setup.stops.agreed(*setup.communicator)) throw Stopped();
  check(!called_off, "a wait for data was called off without a signal");  // no end of the set
  if (batch && !setup.model.device.is_cpu())
    batch->prefetch_next = [&batches] { batches.prefetch(); };
  return batch;
}

void keep_on_device(Setup& setup, DataOnDevice choice) {
  setup.data.keep_on_device = choice;
  setup.data.on_device.clear();
  const bool must = choice == DataOnDevice::yes;
  if (!must && (choice == DataOnDevice::no || !setup.model.device.is_cuda())) return;
  constexpr std::int64_t most = 2'000'000'000;  // bytes
  const auto memory = must ? std::numeric_limits<std::int64_t>::max() : most;
  for (const auto& set : {setup.data.train, setup.data.validation, setup.data.test}) {
    if (set == nullptr || find_kept(setup, *set) != nullptr) continue;
    const auto reason = why_not_on_device(*set, setup.data.preprocessing, memory);
    require(
        !must || reason.empty(),
        "[data] data_on_device = yes needs images that dimred can keep on the device, but {}: {}",
        reason,
        set->description());
    if (reason.empty())
      setup.data.on_device.push_back(
          std::make_shared<DeviceSet>(DeviceSet{.set = set, .must = must}));
  }
}

}  // namespace dimred::engine
