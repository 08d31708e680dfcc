#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/input/batches.h"
#include "engine/setup.h"

namespace dimred::engine {

struct Score {
  double loss = 0;      // mean over samples
  double accuracy = 0;  // part of samples classified right, [0, 1]
  std::int64_t samples = 0;
  std::int64_t bad = 0;   // that cannot be decoded and are left out, where they are skipped
  std::string first_bad;  // what was met first, of the first rank that met one
};

/// Calls `visit` with each of this rank's batches of a whole dataset, in order, without
/// augmentation; says what came of bad samples. Throws as next_on_all_ranks() does.
data::LoaderReport for_each_batch(Setup& setup,
                                  const data::Dataset& dataset,
                                  const std::function<void(const DeviceBatch& batch)>& visit);

/// Evaluation mode over a whole dataset, in order, without augmentation, summed over ranks. Throws
/// std::runtime_error, on every rank, when no sample can be decoded, and for a running variance
/// below 0; Stopped as next_on_all_ranks() does.
Score evaluate(Setup& setup, const data::Dataset& dataset);

/// evaluate() for a result: throws std::runtime_error for a loss that is not finite, too. `set` is
/// the data set's name in the message.
Score finite_score(Setup& setup, const data::Dataset& dataset, const char* set);

/// "3 bad samples are left out of the test set; the first: ...", of a score with some.
std::string bad_text(const Score& score, const char* set);

/// Estimates BatchNorm's running statistics for the present weights: one pass over the training set
/// in train mode without gradients; cumulative means, as torch.optim.swa_utils.update_bn. With
/// `batches_wanted` > 0, over this number of first batches of that pass only. No effect without
/// BatchNorm layers. Cost: one forward pass over the training set, or over those batches. Random
/// draws (dropout) are those of the training steps of epoch 0, whatever came before. Throws as
/// require_cache_for_pass() and next_on_all_ranks() do.
void recalibrate_batchnorm(Setup& setup, std::int64_t batches_wanted = 0);

}  // namespace dimred::engine
