#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "training/weights/weights.h"

namespace dimred::training {

struct Soup {
  Weights weights;
  std::int64_t taken = 0;             // snapshots in the mean
  std::int64_t images_evaluated = 0;  // what choosing has cost, forward passes of single images
};

/// The greedy choice among candidates that have these accuracies alone: in their order (the later
/// one first among equals, which has been trained longer), each is taken where the accuracy of the
/// mean of what was taken and it does not fall. Source: Wortsman et al. 2022, recipe 1.
void choose_greedily(const std::vector<double>& alone,
                     const std::function<double(std::size_t)>& accuracy_with,
                     const std::function<void(std::size_t)>& take);

/// Greedy soup of the `latest` snapshots of a folder (0: all) by validation accuracy, each
/// candidate recalibrated. The network's weights are changed. Throws std::invalid_argument without
/// a validation set.
Soup greedy_soup(Setup& setup, const std::filesystem::path& folder, std::int64_t latest = 0);

}  // namespace dimred::training
