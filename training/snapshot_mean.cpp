#include "training/snapshot_mean.h"

#include <algorithm>
#include <functional>

#include "checkpoints/snapshot_list.h"
#include "support/errors.h"
#include "support/list_files.h"

namespace dimred::training {

std::vector<std::filesystem::path> snapshot_files(const std::filesystem::path& folder,
                                                  std::int64_t latest) {
  auto files = checkpoints::snapshots_at(folder, {".h5"});
  require(!files.empty(), "[training::weights] {} holds no snapshots", folder.string());
  require(latest <= std::ssize(files),
          "[training::weights] start_latest needs at most the {} snapshots of {}, received {}",
          files.size(),
          folder.string(),
          latest);
  if (latest > 0) files.erase(files.begin(), files.end() - latest);
  return files;
}

void Mean::add(const std::vector<float>& weights) {
  sum_.resize(weights.size());
  std::transform(sum_.begin(), sum_.end(), weights.begin(), sum_.begin(), std::plus<>());
  ++count_;
}

std::vector<float> Mean::values() const {
  std::vector<float> result(sum_.size());
  const auto count = static_cast<double>(count_);
  std::transform(sum_.begin(), sum_.end(), result.begin(), [count](double x) {
    return static_cast<float>(x / count);
  });
  return result;
}

}  // namespace dimred::training
