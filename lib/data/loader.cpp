#include "data/loader.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "data/shard_source.h"
#include "support/errors.h"
#include "support/parallel.h"
#include "support/stopwatch.h"

namespace dimred::data {
namespace {

constexpr std::int64_t most_replacements = 100;

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> number = 0;
  return ++number;
}

/// Throws std::invalid_argument unless the options are in range and the order is of `size` samples.
void validate_loading(const LoaderOptions& options, const Order& order, std::int64_t size) {
  require(options.prefetch >= 1, "[data] needs prefetch >= 1, received {}", options.prefetch);
  require(options.threads >= 1, "[data] needs threads >= 1, received {}", options.threads);
  require(options.parallel_batches >= 0 && options.memory >= 0,
          "[data] needs parallel_batches >= 0 and memory >= 0, received {} and {}",
          options.parallel_batches,
          options.memory);
  require(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks,
          "[data] needs 0 <= rank < ranks, received rank = {}, ranks = {}",
          options.rank,
          options.ranks);
  require(order.size == size,
          "[data] the data set has {} samples, but the order of the samples was made for {}",
          size,
          order.size);
}

/// Batches ahead that the memory allows, one beyond them being with the caller; at least one.
std::int64_t bounded_prefetch(const LoaderOptions& options, const ImageShape& shape) {
  if (options.memory == 0) return options.prefetch;
  const auto batch_bytes = std::max<std::int64_t>(
      1, options.batch_size / options.ranks * shape.size() * std::int64_t{sizeof(float)});
  return std::clamp<std::int64_t>(options.memory / batch_bytes - 1, 1, options.prefetch);
}

}  // namespace

/// A thread's buffers, and what it has seen since its last report.
struct Loader::Worker {
  std::vector<std::uint8_t> encoded;
  PrepareScratch scratch;
  LoaderReport report;
};

Loader::Loader(const Dataset& dataset,
               const Order& order,
               const Preprocessing& preprocessing,
               const LoaderOptions& options,
               std::int64_t epoch,
               std::int64_t first_step)
    : dataset_(dataset),
      order_(order),
      preparer_(preprocessing, prepared_shape(preprocessing, dataset), options.order),
      options_(options),
      epoch_(epoch),
      steps_(steps_per_epoch(dataset.size(), options.batch_size, options.drop_last)),
      number_(next_number()),
      // Resident pixels take a microsecond a sample, files take hundreds.
      chunk_(dataset.shape() && preprocessing.crop.cut == CropMode::none ? 64 : 1),
      next_step_(first_step) {
  validate_loading(options_, order_, dataset_.size());
  require(steps_ >= 1,
          "[data] needs samples for at least one batch of {}{}, received {} samples",
          options_.batch_size,
          options_.drop_last ? " (incomplete batches are dropped)" : "",
          dataset_.size());
  require(epoch_ >= 0, "[data] needs epoch >= 0, received {}", epoch_);
  require(first_step >= 0 && first_step <= steps_,
          "[data] needs 0 <= first_step <= {}, received {}",
          steps_,
          first_step);
  options_.prefetch = bounded_prefetch(options_, preparer_.shape());
  if (options_.parallel_batches == 0) options_.parallel_batches = options_.prefetch;
  if (options_.pool == nullptr) options_.pool = std::make_shared<BatchPool>();
  threads_ = start_threads(
      "data", options_.threads, [this](std::int64_t) { work(); }, [this] { stop(); });
}

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
}

Loader::~Loader() {
  stop();
  threads_.clear();
  for (auto& pending : queue_) recycle(std::move(pending->batch));
}

std::optional<Batch> Loader::next() {
  std::unique_lock lock(mutex_);
  const auto decided = [this] {
    return queue_.empty() ? next_step_ >= steps_ : queue_.front()->is_ready();
  };
  ready_sum_ +=
      std::ranges::count_if(queue_, [](const auto& pending) { return pending->is_ready(); });
  if (!decided()) {
    const ScopedSeconds waiting(seconds_waited_);
    // A signal cannot notify a waiting thread, so one that may be stopped looks now and then.
    while (!ready_.wait_for(lock, std::chrono::milliseconds(50), decided))
      if (options_.stopped && options_.stopped()) throw ReadingStopped();
  }
  if (queue_.empty()) return std::nullopt;
  auto& front = *queue_.front();
  if (front.failure) std::rethrow_exception(front.failure);
  std::optional<Batch> batch(std::move(front.batch));
  queue_.pop_front();
  ++batches_;
  lock.unlock();
  work_.notify_all();
  if (options_.bad_sample == BadSample::drop) remove_dropped(*batch);
  return batch;
}

bool Loader::is_ready() const {
  const std::lock_guard lock(mutex_);
  return !queue_.empty() && queue_.front()->is_ready() && !queue_.front()->failure;
}

void Loader::recycle(Batch batch) {
  // A caller may keep many batches and give them back at once; more spares than one with the caller
  // and those ahead are never used.
  options_.pool->give(std::move(batch), options_.prefetch + 1);
}

LoaderReport Loader::report() const {
  const std::lock_guard lock(mutex_);
  auto report = report_;
  report.seconds_waited = seconds_waited_;
  report.batches = batches_;
  if (batches_ > 0) report.mean_ready = 1.0 * ready_sum_ / batches_;
  return report;
}

/// The earliest batch with samples that nobody has claimed.
Loader::PendingBatch* Loader::claimable() {
  for (const auto& pending : queue_) {
    if (pending->failure) return nullptr;  // nothing behind a failure is wanted
    if (pending->claimed < pending->batch.labels.size()) return pending.get();
  }
  // This rank's part of a batch may be empty: ready at once, its caller may free it at any time.
  auto* started = start_next();
  while (started != nullptr && started->is_ready()) {
    ready_.notify_all();
    started = started->failure ? nullptr : start_next();
  }
  return started;
}

/// Begins the next step's batch, if there may be one more.
Loader::PendingBatch* Loader::start_next() {
  if (next_step_ >= steps_ || std::ssize(queue_) >= options_.prefetch) return nullptr;
  const auto in_work =
      std::ranges::count_if(queue_, [](const auto& pending) { return !pending->is_ready(); });
  if (in_work >= options_.parallel_batches) return nullptr;
  queue_.push_back(std::unique_ptr<PendingBatch>(new PendingBatch{.batch = options_.pool->take()}));
  auto& pending = *queue_.back();
  try {
    lay_out(pending.batch, next_step_);
    announce();
  } catch (...) {  // no memory
    pending.batch.labels.clear();
    pending.failure = std::current_exception();
    ready_.notify_all();
  }
  ++next_step_;
  return &pending;
}

/// Tells data that has to be fetched where this pass is.
void Loader::announce() const {
  const auto oldest = next_step_ + 1 - std::ssize(queue_);
  // Ranks of this machine, for which the same files stay, may be up to two steps behind.
  const auto done = std::max<std::int64_t>(0, oldest - 2) * options_.batch_size;
  dataset_.expect(upcoming_of(order_, epoch_, done, options_.epochs, number_));
}

void Loader::lay_out(Batch& batch, std::int64_t step) const {
  const auto part =
      batch_part(dataset_.size(), options_.batch_size, step, options_.rank, options_.ranks);
  const std::size_t count = part.end - part.begin;
  batch.shape = preparer_.shape();
  batch.order = options_.order;
  batch.epoch = epoch_;
  batch.position = part.begin;
  batch.global_count = part.global_count;
  batch.images.resize(count * batch.shape.size());
  batch.labels.resize(count);
  batch.indices.resize(count);
}

void Loader::fail(PendingBatch& pending, std::size_t slot, std::exception_ptr failure) {
  if (!pending.failure || slot < pending.failed_at) {
    pending.failure = std::move(failure);
    pending.failed_at = slot;
  }
  pending.done += pending.batch.labels.size() - pending.claimed;  // nobody will
  pending.claimed = pending.batch.labels.size();
}

void Loader::work() noexcept {
  Worker worker;
  const StoppableReads stoppable(stopping_);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    auto* pending = claimable();
    if (pending == nullptr) {
      if (next_step_ >= steps_ && queue_.empty()) return;
      work_.wait(lock);
      continue;
    }
    const auto begin = pending->claimed;
    const auto end = std::min(begin + chunk_, pending->batch.labels.size());
    pending->claimed = end;
    if (end < pending->batch.labels.size()) work_.notify_one();
    lock.unlock();
    std::exception_ptr failure;
    auto at = begin;
    try {
      for (; at < end && !stopping_; ++at) fill(pending->batch, at, worker);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    pending->done += end - begin;
    if (failure) fail(*pending, at, failure);
    add(report_, worker.report);
    worker.report = {};
    if (pending->is_ready()) ready_.notify_all();
  }
}

/// The sample at `slot` of the batch, or what stands for it when it is bad.
void Loader::fill(Batch& batch, std::size_t slot, Worker& worker) const {
  auto index = order_.at(epoch_, batch.position + slot);
  for (std::int64_t attempt = 0;; ++attempt) {
    try {
      return prepare_sample(batch, slot, index, worker);
    } catch (const std::runtime_error& error) {
      const auto failure = with_origin(error, dataset_.origin(index));
      if (options_.bad_sample == BadSample::fail) throw failure;
      require_environment(attempt < most_replacements,
                          "[data] stopped after {} bad samples in a row; the last error is: {}",
                          most_replacements + 1,
                          failure.what());
      if (attempt == 0) ++worker.report.bad_samples;
      take_note(worker.report, failure.what());
    }
    if (options_.bad_sample == BadSample::drop) {
      batch.indices[slot] = index;
      batch.labels[slot] = dropped_label;
      return;
    }
    index = (index + 1) % dataset_.size();
  }
}

void Loader::prepare_sample(Batch& batch,
                            std::size_t slot,
                            std::int64_t index,
                            Worker& worker) const {
  // A clock takes a twentieth of the time of a small resident sample that is only normalised.
  constexpr std::size_t small = 20'000;  // values
  const auto& preprocessing = preparer_.preprocessing();
  const std::size_t image_size = batch.shape.size();
  const bool timed = !dataset_.shape() || !preprocessing.keeps_pixels() || image_size > small;
  const auto out = std::span(batch.images).subspan(slot * image_size, image_size);
  std::optional<Stopwatch> clock;
  auto& report = worker.report;
  if (timed) clock.emplace();
  const auto sample = dataset_.read(index, worker.encoded);
  report.fetch_seconds += sample.seconds_fetching;
  if (timed) report.read_seconds += clock->restart() - sample.seconds_fetching;
  worker.scratch.damage.clear();
  preparer_.prepare(sample, epoch_, index, worker.scratch, out);
  if (timed) {
    report.decode_seconds += worker.scratch.decode_seconds;
    report.transform_seconds += clock->seconds() - worker.scratch.decode_seconds;
  }
  ++report.samples;
  const auto damage = sample.damage.empty() ? worker.scratch.damage : sample.damage;
  if (!damage.empty()) {
    ++report.damaged_samples;
    take_note(report, formatted("{}: {}", dataset_.origin(index), damage));
  }
  batch.indices[slot] = index;
  batch.labels[slot] = sample.label;
}

}  // namespace dimred::data
