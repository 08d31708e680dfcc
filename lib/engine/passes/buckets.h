#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "models/flat.h"
#include "support/stopwatch.h"

namespace dimred::engine {

/// How the replicated gradient is cut into parts that are summed over ranks while the backward pass
/// goes on.
struct BucketOptions {
  double bucket_mb = 25;        // > 0; MiB of each at most (a parameter is never cut)
  double first_bucket_mb = 1;   // of the first that is ready, so that the wire is busy early
  std::vector<double> split{};  // or explicit cuts: numbers of parameters, ascending, as
                                // MindSpore's fusion split [85, 160]
};

/// Columns of each bucket, in the order in which the backward pass finishes them: from the end of
/// the vector to its beginning. Padding belongs to the segment before it. Throws
/// std::invalid_argument for cuts that do not ascend within the number of parameters.
std::vector<layout::ColumnRange> bucket_columns(const layout::Layout& layout,
                                                const BucketOptions& options);

/// How much of the all-reduce the backward pass has hidden, over all steps so far.
struct Overlap {
  double seconds = 0;          // from each step's first bucket to its last one's end
  double exposed_seconds = 0;  // of these, after the backward pass
};

/// "all-reduce in 5 buckets: 1.20 s, 0.31 s of them after the backward passes (74 % hidden)".
std::string describe(const Overlap& overlap, std::size_t buckets);

/// Starts each bucket's all-reduce as soon as the backward pass has written its last gradient.
/// Buckets start in the same order on every rank, whatever the order of gradients. Needs
/// FlatVectors whose .grad views stay in place. One at a time for a network; with one rank it does
/// nothing.
class GradientBuckets {
 public:
  /// `objective` and `flat` must outlive it.
  GradientBuckets(models::Objective& objective,
                  models::FlatVectors& flat,
                  distributed::TensorCommunicator& communicator,
                  const BucketOptions& options);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// The next backward pass is the step's last.
  void begin();
  /// Starts what is left: parameters without a gradient, or all on a rank without samples. Before
  /// the step's next collective, so that their order is the same everywhere.
  void start_rest();
  /// Waits for the sums over ranks.
  void finish();

  const Overlap& overlap() const { return overlap_; }
  std::size_t count() const { return buckets_.size(); }

 private:
  struct Bucket {
    layout::ColumnRange columns;
    std::int64_t parameters = 0;  // in it
    std::int64_t missing = 0;     // whose gradient this pass has not written yet
  };

  void written(std::size_t bucket);
  void start_ready();

  models::Objective& objective_;
  models::FlatVectors& flat_;
  distributed::TensorCommunicator& communicator_;
  std::vector<Bucket> buckets_;
  bool active_ = false;
  std::size_t next_ = 0;  // first bucket not started
  std::vector<std::unique_ptr<distributed::Pending>> pending_;
  Stopwatch since_first_;
  Overlap overlap_;
};

}  // namespace dimred::engine
