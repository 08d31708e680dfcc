#pragma once

#include <cstdint>

// The cost of a last layer over many classes for a rank: class-sharded, and as every rank's own
// copy.
namespace dimred::scaling {

struct HeadShape {
  std::int64_t ranks = 1;
  std::int64_t classes = 2;       // C >= ranks
  std::int64_t embedding = 512;   // D
  std::int64_t batch = 1;         // N samples of all ranks
  std::int64_t number_bytes = 4;  // of a feature, weight or gradient
  std::int64_t optimizer_vectors = 1;
  double sampling_ratio = 1;  // (0, 1]: of the classes
};

/// Bytes that a rank with `own` of the batch's samples sends in one step of
/// training/heads/class_sharded_softmax.cpp, to the byte: two counts a rank, features and labels of
/// all, two float64 maxima and a float64 sum a sample and one number more, and the features'
/// gradients to their owners. Without gradients (a trial of a line search) these last are left out.
std::int64_t head_bytes(const HeadShape& head, std::int64_t own, bool with_gradients = true);

/// Bytes that an all-reduce of the whole layer's gradient sends instead.
std::int64_t replicated_head_bytes(const HeadShape& head);

/// Bytes of a rank at the peak of a step.
struct HeadMemory {
  std::int64_t weights = 0;   // with the optimiser's vectors and, of a sample, the copy
  std::int64_t gradient = 0;  // of the weights or of the sample
  std::int64_t logits = 0;    // the one matrix of samples x classes
  std::int64_t features = 0;  // of all samples, and their gradients
  std::int64_t total() const { return weights + gradient + logits + features; }
};
/// The memory of the first rank, which has most; with a sample of classes, its share and the whole
/// batch's own classes.
HeadMemory head_memory(const HeadShape& head);
/// The same of a rank that holds every class and sees its own part of the batch.
HeadMemory replicated_head_memory(const HeadShape& head);

}  // namespace dimred::scaling
