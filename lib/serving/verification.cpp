#include "serving/verification.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>

#include "support/errors.h"

namespace dimred::serving {
namespace {

/// Threshold i of a grid from 0 on.
struct Grid {
  double step = 0;
  std::int64_t size = 0;
  double operator[](std::int64_t i) const { return i * step; }
};
constexpr Grid accuracy_grid{0.01, 400}, far_grid{0.001, 4000};

/// Distances of the pairs of one kind, sorted.
using Sorted = std::vector<double>;

double closer(const Sorted& distances, double threshold) {
  return std::ranges::lower_bound(distances, threshold) - distances.begin();
}

/// The sorted distances of one fold, or of all others.
struct FoldDistances {
  Sorted same, different;

  double pairs() const { return same.size() + different.size(); }
  double tar(double threshold) const { return closer(same, threshold) / count(same); }
  double far(double threshold) const { return closer(different, threshold) / count(different); }
  double accuracy(double threshold) const {
    return (closer(same, threshold) + count(different) - closer(different, threshold)) / pairs();
  }

 private:
  static double count(const Sorted& list) { return list.size(); }
};

struct FoldSplit {
  FoldDistances test, others;
};

FoldSplit split_of(std::span<const double> distances,
                   std::span<const Pair> pairs,
                   std::size_t begin,
                   std::size_t end) {
  FoldSplit split;
  for (std::size_t i = 0; i < distances.size(); ++i) {
    auto& part = i >= begin && i < end ? split.test : split.others;
    (pairs[i].same ? part.same : part.different).push_back(distances[i]);
  }
  for (auto* part : {&split.test, &split.others}) {
    std::ranges::sort(part->same);
    std::ranges::sort(part->different);
  }
  return split;
}

std::size_t fold_size(std::size_t pairs, std::size_t number) {
  return pairs / verification_folds + (number < pairs % verification_folds ? 1 : 0);
}

double best_threshold(const FoldDistances& others) {
  double best = -1, threshold = 0;
  for (std::int64_t i = 0; i < accuracy_grid.size; ++i) {
    const double accuracy = others.accuracy(accuracy_grid[i]);
    if (accuracy <= best) continue;
    best = accuracy;
    threshold = accuracy_grid[i];
  }
  return threshold;
}

double far_threshold(const FoldDistances& others) {
  std::int64_t last = 0;  // of those that accept no more
  while (last + 1 < far_grid.size && others.far(far_grid[last + 1]) <= far_target) ++last;
  const double low = others.far(far_grid[last]);
  if (last + 1 == far_grid.size) return low < far_target ? 0 : far_grid[last];
  const double high = others.far(far_grid[last + 1]);
  return far_grid[last] + (far_target - low) / (high - low) * (far_grid[last + 1] - far_grid[last]);
}

double mean_over(const std::vector<Fold>& folds, double Fold::*field) {
  double sum = 0;
  for (const auto& fold : folds) sum += fold.*field;
  return sum / folds.size();
}

double deviation_over(const std::vector<Fold>& folds, double Fold::*field) {
  const double mean = mean_over(folds, field);
  double sum = 0;
  for (const auto& fold : folds) sum += (fold.*field - mean) * (fold.*field - mean);
  return std::sqrt(sum / folds.size());
}

using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<const Rows> rows_of(std::span<const double> numbers, std::int64_t size) {
  return {numbers.data(), std::ssize(numbers) / size, size};
}

}  // namespace

void require_folds(std::span<const Pair> pairs) {
  require(pairs.size() >= verification_folds,
          "[verify] needs at least 10 pairs, received {}",
          pairs.size());
  std::size_t begin = 0;
  for (std::size_t number = 0; number < verification_folds; ++number) {
    const auto size = fold_size(pairs.size(), number);
    const auto same = std::ranges::count(pairs.subspan(begin, size), true, &Pair::same);
    require(same > 0 && std::cmp_less(same, size),
            "[verify] needs pairs with 1 (same) and with 0 (different) in each tenth of the list, "
            "received {} from pair {} to pair {}; shuffle the list",
            same == 0 ? "no pair with 1" : "no pair with 0",
            begin + 1,
            begin + size);
    begin += size;
  }
}

Verification verify(std::span<const double> distances, std::span<const Pair> pairs) {
  check(distances.size() == pairs.size(), "a distance for each pair");
  require_folds(pairs);
  for (std::size_t i = 0; i < distances.size(); ++i)
    require(std::isfinite(distances[i]),
            "[verify] needs finite embeddings, but an embedding of pair {} is not finite",
            i + 1);
  Verification result;
  for (std::int64_t i = 0; i < accuracy_grid.size; ++i) result.roc.push_back({accuracy_grid[i]});
  std::size_t begin = 0;
  for (std::size_t number = 0; number < verification_folds; ++number) {
    const auto size = fold_size(distances.size(), number);
    const auto [test, others] = split_of(distances, pairs, begin, begin + size);
    begin += size;
    Fold fold{.threshold = best_threshold(others), .tar_threshold = far_threshold(others)};
    fold.accuracy = test.accuracy(fold.threshold);
    fold.tar = test.tar(fold.tar_threshold);
    fold.far = test.far(fold.tar_threshold);
    result.folds.push_back(fold);
    for (auto& point : result.roc) {
      point.true_positive_rate += test.tar(point.threshold) / verification_folds;
      point.false_positive_rate += test.far(point.threshold) / verification_folds;
    }
  }
  result.accuracy = mean_over(result.folds, &Fold::accuracy);
  result.accuracy_deviation = deviation_over(result.folds, &Fold::accuracy);
  result.tar = mean_over(result.folds, &Fold::tar);
  result.tar_deviation = deviation_over(result.folds, &Fold::tar);
  result.far = mean_over(result.folds, &Fold::far);
  return result;
}

std::vector<double> pair_distances(std::span<const double> embeddings,
                                   std::span<const double> flipped,
                                   std::int64_t size,
                                   std::span<const Pair> pairs) {
  check(flipped.empty() || flipped.size() == embeddings.size(), "as many flipped embeddings");
  Rows unit = rows_of(embeddings, size);
  if (!flipped.empty()) unit += rows_of(flipped, size);
  for (auto row : unit.rowwise()) row.normalize();  // of zeros it stays as it is
  std::vector<double> distances;
  for (const auto& pair : pairs)
    distances.push_back((unit.row(pair.first) - unit.row(pair.second)).squaredNorm());
  return distances;
}

double mean_length(std::span<const double> embeddings,
                   std::span<const double> flipped,
                   std::int64_t size,
                   std::span<const Pair> pairs) {
  double sum = 0, count = 0;
  for (const auto& matrix : {embeddings, flipped}) {
    if (matrix.empty()) continue;
    const auto rows = rows_of(matrix, size);
    for (const auto& pair : pairs) {
      sum += rows.row(pair.first).norm() + rows.row(pair.second).norm();
      count += 2;
    }
  }
  return sum / count;
}

}  // namespace dimred::serving
