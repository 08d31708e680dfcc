#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"
#include "data/loader_report.h"
#include "data/order.h"
#include "data/preprocess.h"

namespace dimred::data {

/// The treatment of a sample that cannot be read or decoded.
/// fail: next() throws. replace: the next good one by index takes its place (around the end, at
/// most 100 further), so that every rank's batches keep their sizes without a word between them.
/// drop: the batch has fewer; for evaluation, whose sums count.
enum class BadSample { fail, replace, drop };

/// One pass's plan: batches of `batch_size` positions in order; the last may be smaller, or is
/// dropped with `drop_last`.
struct LoaderOptions {
  std::int64_t batch_size = 64;  // samples per step over all ranks: the global batch, >= 1
  bool drop_last = false;
  std::int64_t prefetch = 4;  // batches ahead, >= 1
  int rank = 0;               // takes positions [rank count / ranks, (rank + 1) count / ranks)
  int ranks = 1;              // of each batch, both ends rounded down
  std::int64_t threads = 1;   // >= 1, that prepare samples
  std::int64_t parallel_batches = 0;  // in work at once, >= 0; 0: as many as `prefetch`
  std::int64_t memory = 0;  // bytes for batches ahead, >= 0: fewer than `prefetch` (but one)
                            // where they would take more; 0: no bound
  PixelOrder order = PixelOrder::planes;
  BadSample bad_sample = BadSample::fail;
  std::shared_ptr<BatchPool> pool = {};  // of buffers; empty: the loader's own
  std::int64_t epochs = 0;  // of the run: files of the next epoch are fetched ahead; 0: of this one
  std::function<bool()> stopped = {};  // asked while next() waits: true calls it off; empty: never
};

/// Prepares batches of one epoch in background threads, ahead of the step, into reused buffers; the
/// same for any number of threads. next() and recycle() belong to one thread. Memory: prefetch + 1
/// batches, those the caller holds, and a decoded image a thread. Measured on one 28x28 stream,
/// batch 64, one thread: 0.7 million images/s shuffled, 0.6 with crop and flip.
class Loader {
 public:
  /// Starts at `first_step` of the epoch (for a resume; steps() gives a loader at its end). The
  /// dataset must outlive the loader. Throws std::invalid_argument for options out of range, an
  /// order of another size than the dataset's, or an epoch without any step.
  Loader(const Dataset& dataset,
         const Order& order,
         const Preprocessing& preprocessing,
         const LoaderOptions& options,
         std::int64_t epoch,
         std::int64_t first_step = 0);
  /// Stops each thread after at most one sample, whatever has not been taken yet.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch, or nullopt after the last. Rethrows what a background thread threw, after
  /// the batches before it. Throws ReadingStopped where options.stopped has called the wait off,
  /// within 0.1 s.
  std::optional<Batch> next();
  /// True when next() would return a batch at once.
  bool is_ready() const;
  /// Gives a used batch's buffers back.
  void recycle(Batch batch);

  std::int64_t steps() const { return steps_; }                // in a whole epoch
  std::int64_t prefetch() const { return options_.prefetch; }  // after the bound on memory
  /// Seconds that next() has waited for a batch that was not ready.
  double seconds_waited() const { return seconds_waited_; }
  LoaderReport report() const;

 private:
  /// A batch in work: samples are claimed in order by any thread, `chunk_` at a time.
  struct PendingBatch {
    Batch batch;
    std::size_t claimed = 0, done = 0;
    std::size_t failed_at = 0;  // the earliest sample that failed
    std::exception_ptr failure;
    bool is_ready() const { return done == batch.labels.size(); }
  };
  struct Worker;

  void stop();
  void work() noexcept;
  PendingBatch* claimable();
  PendingBatch* start_next();
  void lay_out(Batch& batch, std::int64_t step) const;
  void announce() const;
  void fill(Batch& batch, std::size_t slot, Worker& worker) const;
  void prepare_sample(Batch& batch, std::size_t slot, std::int64_t index, Worker& worker) const;
  static void fail(PendingBatch& pending, std::size_t slot, std::exception_ptr failure);

  const Dataset& dataset_;
  Order order_;
  Preparer preparer_;
  LoaderOptions options_;
  std::int64_t epoch_, steps_;
  std::uint64_t number_;  // among the process's loaders
  std::size_t chunk_;
  double seconds_waited_ = 0;
  std::int64_t ready_sum_ = 0, batches_ = 0;
  mutable std::mutex mutex_;  // guards what follows, up to the threads
  std::condition_variable work_, ready_;
  std::int64_t next_step_;                           // the first one that nobody has started
  std::deque<std::unique_ptr<PendingBatch>> queue_;  // steps in order
  LoaderReport report_;
  std::atomic<bool> stopping_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace dimred::data
