#pragma once

#include <filesystem>

#include "training/weights/weights.h"

namespace dimred::training {

struct Soup {
  Weights weights;
  std::int64_t taken = 0;             // snapshots in the mean
  std::int64_t images_evaluated = 0;  // what choosing has cost, forward passes of single images
};

/// Greedy soup of the `latest` snapshots of a folder (0: all): in order of their validation
/// accuracy, each joins the mean when the mean's accuracy does not fall. For a network with
/// BatchNorm every candidate's running statistics are estimated on about 10,000 training images.
/// The network's weights are changed. Throws std::invalid_argument without a validation set.
/// Source: Wortsman et al. 2022, recipe 1.
Soup greedy_soup(Setup& setup, const std::filesystem::path& folder, std::int64_t latest = 0);

}  // namespace dimred::training
