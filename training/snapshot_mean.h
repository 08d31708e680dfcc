#pragma once

#include <filesystem>
#include <vector>

namespace dimred::training {

/// The `latest` snapshots of a folder or a list (.txt) in order (0: all). Throws
/// std::invalid_argument when there are none, or fewer, std::runtime_error when some of a run's are
/// gone (checkpoints/snapshot_list.h).
std::vector<std::filesystem::path> snapshot_files(const std::filesystem::path& folder,
                                                  std::int64_t latest = 0);

/// A mean of weights, summed in float64.
class Mean {
 public:
  void add(const std::vector<float>& weights);
  std::vector<float> values() const;
  std::int64_t count() const { return count_; }

 private:
  std::vector<double> sum_;
  std::int64_t count_ = 0;
};

}  // namespace dimred::training
