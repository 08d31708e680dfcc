#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// Whether two images show the same, told by the distance of their embeddings: the protocol of
// Labeled Faces in the Wild. Reference: insightface's
// recognition/arcface_torch/eval/verification.py and PLSC's utils/verification.py, which are David
// Sandberg's facenet.
namespace dimred::serving {

/// Two images, by their places in a list.
struct Pair {
  std::int64_t first = 0, second = 0;
  bool same = false;
};

inline constexpr std::size_t verification_folds = 10;
inline constexpr double far_target = 1e-3;

struct Fold {
  double threshold = 0;      // of the best accuracy on the other folds
  double accuracy = 0;       // with it, on this one
  double tar_threshold = 0;  // at which the other folds accept far_target of what differs
  double tar = 0, far = 0;   // with that, on this one: accepted of what is the same, what differs
};

struct RocPoint {
  double threshold = 0, true_positive_rate = 0, false_positive_rate = 0;  // means over folds
};

/// Means and standard deviations (of the folds as a population) over the folds.
struct Verification {
  std::vector<Fold> folds;
  double accuracy = 0, accuracy_deviation = 0;
  double tar = 0, tar_deviation = 0, far = 0;
  std::vector<RocPoint> roc;  // thresholds 0, 0.01, ..., 3.99
};

/// Throws std::invalid_argument unless there are at least 10 pairs and every fold has some of
/// either kind.
void require_folds(std::span<const Pair> pairs);

/// Pairs closer than a threshold count as the same. The folds are tenths of the list, in order,
/// the first ones a pair longer where it does not divide. For each, the other nine choose the
/// smallest threshold of 0, 0.01, ... 3.99 with the highest accuracy; and, of 0, 0.001, ... 3.999,
/// the one at which far_target of their different pairs are accepted, linear between the last
/// threshold that accepts no more and the next (0 when even the largest accepts fewer). distances:
/// squared L2 of normalised embeddings, [0, 4]. Throws std::invalid_argument as require_folds, and
/// unless all distances are finite.
Verification verify(std::span<const double> distances, std::span<const Pair> pairs);

/// Squared distance of each pair. `embeddings` [images x size], and of the flipped images `flipped`
/// (the same, or empty): their sum is divided by its length, unless that is 0.
std::vector<double> pair_distances(std::span<const double> embeddings,
                                   std::span<const double> flipped,
                                   std::int64_t size,
                                   std::span<const Pair> pairs);

/// XNorm: mean length of the embeddings, and of the flipped ones, over all images of all pairs.
double mean_length(std::span<const double> embeddings,
                   std::span<const double> flipped,
                   std::int64_t size,
                   std::span<const Pair> pairs);

}  // namespace dimred::serving
