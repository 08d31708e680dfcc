#pragma once

#include "optimizers/optimizer.h"

namespace dimred::optimizers {

/// Each output channel's gradient less its mean, g_i <- g_i - mean(g_i), in place, for weights of
/// two or more dimensions that decay (so not for biases and BatchNorm). `gradient` [columns] holds
/// whole parameters. Source: Yong et al. 2020; MindSpore's gradient centralisation.
void centralize(torch::Tensor& gradient, const std::vector<Segment>& segments);

/// g <- g min(1, most / |g|), in place, |g| over all columns of all ranks [M] in float64; returns
/// |g| []. Source: tf.clip_by_global_norm. The gradient must be summed over ranks; of sharded
/// segments, which come last, `sum_over_ranks` adds the squares. Nothing else waits for the device.
torch::Tensor clip_to_norm(torch::Tensor& gradient,
                           const std::vector<Segment>& segments,
                           double most,
                           const SumOverRanks& sum_over_ranks = nullptr);

/// Both, as the options say.
void prepare_gradient(torch::Tensor& gradient,
                      const std::vector<Segment>& segments,
                      const GradientOptions& options,
                      const SumOverRanks& sum_over_ranks);

}  // namespace dimred::optimizers
