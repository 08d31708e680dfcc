#include "data/loader.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "data/loader_options.h"
#include "data/parallel.h"
#include "data/shard_source.h"
#include "support/errors.h"
#include "support/stopwatch.h"

namespace dimred::data {
namespace {

constexpr std::int64_t most_replacements = 100;

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> number = 0;
  return ++number;
}

}  // namespace

/// A thread's buffers, and what it has seen since it last told.
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
      shape_(prepared_shape(preprocessing, dataset)),
      order_(order),
      preprocessing_(preprocessing),
      options_(options),
      epoch_(epoch),
      steps_(steps_per_epoch(dataset.size(), options.batch_size, options.drop_last)),
      number_(next_number()),
      // Resident pixels take a microsecond a sample, files take hundreds.
      chunk_(dataset.shape() && preprocessing.crop.cut == Cut::none ? 64 : 1),
      next_step_(first_step) {
  validate(options_, order_, dataset_.size());
  data::validate(preprocessing_, shape_);
  require(steps_ >= 1,
          "[data::Loader] needs at least one batch of {}{}, received {} samples",
          options_.batch_size,
          options_.drop_last ? " (whole)" : "",
          dataset_.size());
  require(epoch_ >= 0, "[data::Loader] needs epoch >= 0, received {}", epoch_);
  require(first_step >= 0 && first_step <= steps_,
          "[data::Loader] needs 0 <= first_step <= {}, received {}",
          steps_,
          first_step);
  table_ = pixel_table(preprocessing_);
  options_.prefetch = bounded_prefetch(options_, shape_);
  if (options_.parallel_batches == 0) options_.parallel_batches = options_.prefetch;
  if (options_.pool == nullptr) options_.pool = std::make_shared<BatchPool>();
  start_threads();
}

void Loader::start_threads() {
  try {
    while (std::ssize(threads_) < options_.threads) threads_.emplace_back([this] { work(); });
  } catch (const std::exception& error) {
    stop_threads();
    cannot_start("data::Loader", std::ssize(threads_) + 1, options_.threads, error);
  }
}

void Loader::stop_threads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (auto& thread : threads_) thread.join();
}

Loader::~Loader() {
  stop_threads();
  for (auto& filling : queue_) recycle(std::move(filling->batch));
}

std::optional<Batch> Loader::next() {
  std::unique_lock lock(mutex_);
  const auto decided = [this] {
    return queue_.empty() ? next_step_ >= steps_ : queue_.front()->is_ready();
  };
  ready_sum_ += std::count_if(
      queue_.begin(), queue_.end(), [](const auto& filling) { return filling->is_ready(); });
  if (!decided()) {
    const ScopedSeconds waiting(seconds_waited_);
    // A signal cannot notify anybody, so whoever may be stopped looks now and then.
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
  options_.pool->give(std::move(batch), static_cast<std::size_t>(options_.prefetch) + 1);
}

LoaderReport Loader::report() const {
  const std::lock_guard lock(mutex_);
  auto report = report_;
  report.seconds_waited = seconds_waited_;
  report.batches = batches_;
  if (batches_ > 0)
    report.mean_ready = static_cast<double>(ready_sum_) / static_cast<double>(batches_);
  return report;
}

/// The earliest batch with samples that nobody has claimed.
Loader::Filling* Loader::claimable() {
  for (const auto& filling : queue_) {
    if (filling->failure) return nullptr;  // nothing behind a failure is wanted
    if (filling->claimed < filling->batch.labels.size()) return filling.get();
  }
  return start_next();
}

/// Begins the next step's batch, if there may be one more.
Loader::Filling* Loader::start_next() {
  if (next_step_ >= steps_ || static_cast<std::int64_t>(queue_.size()) >= options_.prefetch)
    return nullptr;
  const auto in_work = std::count_if(
      queue_.begin(), queue_.end(), [](const auto& filling) { return !filling->is_ready(); });
  if (in_work >= options_.parallel_batches) return nullptr;
  queue_.push_back(std::unique_ptr<Filling>(new Filling{.batch = options_.pool->take()}));
  auto& filling = *queue_.back();
  try {
    lay_out(filling.batch, next_step_);
    announce();
  } catch (...) {  // no memory
    filling.batch.labels.clear();
    filling.failure = std::current_exception();
    ready_.notify_all();
  }
  ++next_step_;
  return &filling;
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
      part_of(dataset_.size(), options_.batch_size, step, options_.rank, options_.ranks);
  const auto count = static_cast<std::size_t>(part.end - part.begin);
  batch.shape = shape_;
  batch.order = options_.order;
  batch.epoch = epoch_;
  batch.position = part.begin;
  batch.global_count = part.global_count;
  batch.images.resize(count * static_cast<std::size_t>(shape_.size()));
  batch.labels.resize(count);
  batch.indices.resize(count);
}

void Loader::fail(Filling& filling, std::size_t place, std::exception_ptr failure) {
  if (!filling.failure || place < filling.failed_at) {
    filling.failure = std::move(failure);
    filling.failed_at = place;
  }
  filling.done += filling.batch.labels.size() - filling.claimed;  // nobody will
  filling.claimed = filling.batch.labels.size();
}

void Loader::work() noexcept {
  Worker worker;
  const StoppableReads stoppable(stopping_);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    auto* filling = claimable();
    if (filling == nullptr) {
      if (next_step_ >= steps_ && queue_.empty()) return;
      work_.wait(lock);
      continue;
    }
    const auto begin = filling->claimed;
    const auto end = std::min(begin + chunk_, filling->batch.labels.size());
    filling->claimed = end;
    if (end < filling->batch.labels.size()) work_.notify_one();
    lock.unlock();
    std::exception_ptr failure;
    auto at = begin;
    try {
      for (; at < end && !stopping_; ++at) fill(filling->batch, at, worker);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    filling->done += end - begin;
    if (failure) fail(*filling, at, failure);
    add(report_, worker.report);
    worker.report = {};
    if (filling->is_ready()) ready_.notify_all();
  }
}

/// The sample at `place` of the batch, or what stands for it when it is bad.
void Loader::fill(Batch& batch, std::size_t place, Worker& worker) const {
  auto index = order_.at(epoch_, batch.position + static_cast<std::int64_t>(place));
  for (std::int64_t attempt = 0;; ++attempt) {
    try {
      return prepare_sample(batch, place, index, worker);
    } catch (const std::runtime_error&) {
      const auto failure = with_origin(std::current_exception(), dataset_.origin(index));
      if (options_.bad_sample == BadSample::fail) std::rethrow_exception(failure);
      require_environment(attempt < most_replacements,
                          "[data::Loader] gives up: {} bad samples one after another; the last: {}",
                          most_replacements + 1,
                          text_of(failure));
      ++worker.report.bad_samples;
      take_note(worker.report, text_of(failure));
    }
    if (options_.bad_sample == BadSample::drop) {
      batch.indices[place] = index;
      batch.labels[place] = dropped_label;
      return;
    }
    index = (index + 1) % dataset_.size();
  }
}

void Loader::prepare_sample(Batch& batch,
                            std::size_t place,
                            std::int64_t index,
                            Worker& worker) const {
  // A clock takes a twentieth of the time of a small resident sample that is only normalised.
  constexpr std::int64_t small = 20'000;  // values
  const bool timed = !dataset_.shape() || preprocessing_.crop.cut != Cut::none ||
                     preprocessing_.jitter.any() || shape_.size() > small;
  const auto image_size = static_cast<std::size_t>(shape_.size());
  const auto out = std::span(batch.images).subspan(place * image_size, image_size);
  std::optional<Stopwatch> clock;
  auto& report = worker.report;
  if (timed) clock.emplace();
  const auto sample = dataset_.read(index, worker.encoded);
  report.fetch_seconds += sample.seconds_fetching;
  if (timed) report.read_seconds += clock->restart() - sample.seconds_fetching;
  worker.scratch.damage.clear();
  prepare(
      sample, shape_, preprocessing_, table_, options_.order, epoch_, index, worker.scratch, out);
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
  batch.indices[place] = index;
  batch.labels[place] = sample.label;
}

}  // namespace dimred::data
