#include "data/loader.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "support/errors.h"

namespace dimred::data {
namespace {

constexpr auto place = "data::Loader";

void validate(const LoaderOptions& options, const Order& order, std::int64_t size) {
  require(options.prefetch >= 1, place, "needs prefetch >= 1, received ", options.prefetch);
  require(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks,
          place,
          "needs 0 <= rank < ranks, received rank = ",
          options.rank,
          ", ranks = ",
          options.ranks);
  require(order.size == size,
          place,
          "needs an order of the dataset's ",
          size,
          " samples, received one of ",
          order.size);
}

ImageShape common_shape(const Dataset& dataset) {
  const auto shape = dataset.shape();
  require(shape.has_value(), place, "needs images of one size, received ", dataset.description());
  return *shape;
}

}  // namespace

std::int64_t steps_per_epoch(std::int64_t size, std::int64_t batch_size, bool drop_last) {
  require(size >= 0, "data::steps_per_epoch", "needs size >= 0, received ", size);
  require(batch_size >= 1, "data::steps_per_epoch", "needs batch_size >= 1, received ", batch_size);
  const bool partial = size % batch_size != 0 && !drop_last;
  return size / batch_size + (partial ? 1 : 0);
}

Loader::Loader(const Dataset& dataset,
               const Order& order,
               const Preprocessing& preprocessing,
               const LoaderOptions& options,
               std::int64_t epoch,
               std::int64_t first_step)
    : dataset_(dataset),
      shape_(common_shape(dataset)),
      order_(order),
      preprocessing_(preprocessing),
      options_(options),
      epoch_(epoch),
      first_step_(first_step),
      steps_(steps_per_epoch(dataset.size(), options.batch_size, options.drop_last)) {
  validate(options_, order_, dataset_.size());
  data::validate(preprocessing_, shape_);
  require(steps_ >= 1,
          place,
          "needs at least one batch of ",
          options_.batch_size,
          options_.drop_last ? " (whole)" : "",
          ", received ",
          dataset_.size(),
          " samples");
  require(epoch_ >= 0, place, "needs epoch >= 0, received ", epoch_);
  require(first_step_ >= 0 && first_step_ <= steps_,
          place,
          "needs 0 <= first_step <= ",
          steps_,
          ", received ",
          first_step_);
  table_ = pixel_table(preprocessing_);
  thread_ = std::thread([this] { run(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::optional<Batch> Loader::next() {
  std::unique_lock lock(mutex_);
  const auto decided = [this] { return !ready_.empty() || finished_; };
  if (!decided()) {
    const auto start = std::chrono::steady_clock::now();
    changed_.wait(lock, decided);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    seconds_waited_ += waited.count();
  }
  if (ready_.empty()) {
    if (failure_) std::rethrow_exception(failure_);
    return std::nullopt;
  }
  std::optional<Batch> batch(std::move(ready_.front()));
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void Loader::recycle(Batch batch) {
  const std::lock_guard lock(mutex_);
  // A caller may keep many batches and give them back at once; more spares than this are never
  // used.
  if (static_cast<std::int64_t>(spare_.size()) <= options_.prefetch) {
    spare_.push_back(std::move(batch));
  }
}

void Loader::run() noexcept {
  std::exception_ptr failure;
  try {
    produce();
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    finished_ = true;
  }
  changed_.notify_all();
}

void Loader::produce() {
  for (std::int64_t step = first_step_; step < steps_; ++step) {
    Batch batch;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] {
        return stopping_ || static_cast<std::int64_t>(ready_.size()) < options_.prefetch;
      });
      if (stopping_) return;
      if (!spare_.empty()) {
        batch = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    fill(batch, step);
    {
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(batch));
    }
    changed_.notify_all();
  }
}

void Loader::fill(Batch& batch, std::int64_t step) const {
  const std::int64_t first = step * options_.batch_size;
  const std::int64_t global = std::min(options_.batch_size, dataset_.size() - first);
  const std::int64_t begin = options_.rank * global / options_.ranks;
  const std::int64_t end = (options_.rank + 1) * global / options_.ranks;
  const auto count = static_cast<std::size_t>(end - begin);

  batch.shape = shape_;
  batch.epoch = epoch_;
  batch.position = first + begin;
  batch.global_count = global;
  const auto image_size = static_cast<std::size_t>(batch.shape.size());
  batch.images.resize(count * image_size);
  batch.labels.resize(count);
  batch.indices.resize(count);

  std::vector<std::uint8_t> scratch;
  for (std::size_t i = 0; i < count && !stopping_; ++i) {
    const auto index = order_.at(epoch_, batch.position + static_cast<std::int64_t>(i));
    const auto sample = dataset_.read(index, scratch);
    batch.indices[i] = index;
    batch.labels[i] = sample.label;
    preprocess(sample,
               preprocessing_,
               table_,
               epoch_,
               index,
               std::span(batch.images).subspan(i * image_size, image_size));
  }
}

}  // namespace dimred::data
