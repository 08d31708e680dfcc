#include "engine/passes/buckets.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "support/errors.h"
#include "support/formatted.h"

namespace dimred::engine {
namespace {

/// Called by autograd when a parameter's .grad is complete.
struct WrittenHook final : torch::autograd::PostAccumulateGradHook {
  explicit WrittenHook(std::function<void()> written) : written_(std::move(written)) {}
  void operator()(const torch::autograd::Variable& /*parameter*/) override { written_(); }
  std::function<void()> written_;
};

void set_hook(const torch::Tensor& parameter, std::function<void()> written) {
  torch::autograd::impl::set_post_acc_grad_hooks(
      parameter, written ? std::make_unique<WrittenHook>(std::move(written)) : nullptr);
}

/// Entries that every rank has alike; what follows them is this rank's alone and needs no sum.
std::size_t replicated_entries(const layout::Layout& layout) {
  return std::ranges::count(
      layout.entries, layout::Placement::replicated, &layout::Entry::placement);
}

/// First entry of each bucket, descending; the last is 0.
std::vector<std::size_t> starts_by_size(const layout::Layout& layout,
                                        const BucketOptions& options) {
  constexpr double columns_of_mb = 1024.0 * 1024.0 / sizeof(float);
  std::vector<std::size_t> starts;
  double limit = options.first_bucket_mb * columns_of_mb;
  std::int64_t end = layout.replicated_size;
  for (std::size_t i = replicated_entries(layout); i-- > 0;) {
    const double size = end - layout.entries[i].memory_offset;
    const bool last = i == 0;
    const double with_next = last ? 0 : end - layout.entries[i - 1].memory_offset;
    if (last || size >= limit || with_next > limit) {
      starts.push_back(i);
      end = layout.entries[i].memory_offset;
      limit = options.bucket_mb * columns_of_mb;
    }
  }
  return starts;
}

std::vector<std::size_t> starts_by_split(const layout::Layout& layout,
                                         const BucketOptions& options) {
  std::vector<std::size_t> starts{0};
  const auto count = replicated_entries(layout);
  for (const double cut : options.split) {
    const std::size_t index = cut;
    require(index == cut && index > starts.front() && index < count,
            "[bucket_mb] allreduce_split needs ascending whole numbers between 0 and {} (parameter "
            "count), received {}",
            count,
            cut);
    starts.insert(starts.begin(), index);
  }
  return starts;
}

}  // namespace

std::string describe(const Overlap& overlap, std::size_t buckets) {
  const double hidden = overlap.seconds > 0 ? 1 - overlap.exposed_seconds / overlap.seconds : 0;
  return formatted(
      "          all-reduce in {} buckets: {} s so far, {} s of it after the backward passes ({} % "
      "hidden)",
      buckets,
      decimal_text(overlap.seconds, 2),
      decimal_text(overlap.exposed_seconds, 2),
      decimal_text(100 * hidden, 0));
}

std::vector<layout::ColumnRange> bucket_columns(const layout::Layout& layout,
                                                const BucketOptions& options) {
  require(options.bucket_mb > 0 && options.first_bucket_mb > 0,
          "[bucket_mb] bucket_mb needs to be > 0, received {}",
          std::min(options.bucket_mb, options.first_bucket_mb));
  const auto starts =
      options.split.empty() ? starts_by_size(layout, options) : starts_by_split(layout, options);
  std::vector<layout::ColumnRange> buckets;
  auto end = layout.replicated_size;
  for (const auto start : starts) {
    buckets.push_back({layout.entries[start].memory_offset, end});
    end = buckets.back().begin;
  }
  return buckets;
}

GradientBuckets::GradientBuckets(models::Objective& objective,
                                 models::FlatVectors& flat,
                                 distributed::TensorCommunicator& communicator,
                                 const BucketOptions& options)
    : objective_(objective), flat_(flat), communicator_(communicator) {
  for (const auto& columns : bucket_columns(flat.layout, options))
    buckets_.push_back({.columns = columns});
  if (communicator.size() == 1) return;
  const auto parameters = objective.parameters();
  check(parameters.size() == flat.layout.entries.size(), "a layout entry for each parameter");
  for (std::size_t i = 0; i < replicated_entries(flat.layout); ++i) {
    std::size_t bucket = 0;
    while (flat.layout.memory_end(i) <= buckets_[bucket].columns.begin) ++bucket;
    ++buckets_[bucket].parameters;
    set_hook(parameters[i].tensor, [this, bucket] { written(bucket); });
  }
}

GradientBuckets::~GradientBuckets() {
  if (communicator_.size() == 1) return;
  for (const auto& parameter : objective_.parameters()) set_hook(parameter.tensor, nullptr);
}

void GradientBuckets::begin() {
  if (communicator_.size() == 1) return;
  for (auto& bucket : buckets_) bucket.missing = bucket.parameters;
  active_ = true;
  next_ = 0;
}

void GradientBuckets::written(std::size_t bucket) {
  if (!active_) return;  // an earlier pass of the step
  --buckets_[bucket].missing;
  start_ready();
}

void GradientBuckets::start_ready() {
  const torch::NoGradGuard no_grad;
  for (; next_ < buckets_.size() && buckets_[next_].missing <= 0; ++next_) {
    if (next_ == 0) since_first_ = Stopwatch();
    const auto& columns = buckets_[next_].columns;
    pending_.push_back(
        communicator_.start_all_reduce(flat_.gradient.narrow(0, columns.begin, columns.size())));
  }
}

void GradientBuckets::start_rest() {
  if (communicator_.size() == 1) return;
  if (!active_) begin();
  for (auto& bucket : buckets_) bucket.missing = 0;
  start_ready();
}

void GradientBuckets::finish() {
  if (communicator_.size() == 1) return;
  start_rest();
  const Stopwatch waiting;
  for (const auto& one : pending_) one->wait();
  overlap_.exposed_seconds += waiting.seconds();
  if (!pending_.empty()) overlap_.seconds += since_first_.seconds();
  pending_.clear();
  active_ = false;
}

}  // namespace dimred::engine
