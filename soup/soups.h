#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "soup/members.h"
#include "training/evaluate.h"
#include "training/setup.h"

namespace dimred::soup {

/// How one set of weights is made of several.
enum class Kind {
  best,     // the member with the highest held-out accuracy; of equals the last
  mean,     // all alike
  greedy,   // members in order of their held-out accuracies, each where the mean gets no worse
  stock,    // Model Stock: by layers, between the anchor and the mean
  learned,  // a coefficient a member, by descent on the held-out loss from the mean
  learned_layers,  // a coefficient a member and parameter
};
std::vector<std::pair<std::string, Kind>> kind_names();

struct Options {
  std::filesystem::path anchor;  // what the members were fine-tuned from; of stock
  std::int64_t steps = 30;       // of descent, at most
  std::function<void(std::int64_t step, double loss)> progress;  // after each; may be empty
};

/// What a kind has found, and its cost in passes of single images.
struct Soup {
  Kind kind = Kind::mean;
  std::vector<std::string> members;
  std::vector<layout::ColumnRange> blocks;  // columns in files
  Coefficients coefficients;                // [members x blocks]; of each block they sum to one
  std::int64_t steps = 0;                   // of descent
  std::int64_t forward_images = 0, backward_images = 0;
  double seconds = 0;
  training::Score validation;
  std::optional<training::Score> test;
};

/// Makes the soups of these kinds and scores them on the setup's validation and test set. `done` is
/// called after each, when the network has its weights and, with BatchNorm, running statistics that
/// were estimated for them (training::recalibrate_candidate). best and greedy score every member
/// alone, once for both. Memory: two vectors [M] for learned coefficients, beyond the network's.
/// Throws std::invalid_argument without a validation set, and for stock without an anchor.
///
/// Source: Wortsman et al. 2022, "Model soups", recipe 1 (greedy); Jang et al. 2024, "Model Stock",
/// equation 5.
std::vector<Soup> make_soups(training::Setup& setup,
                             const std::vector<std::filesystem::path>& members,
                             const std::vector<Kind>& kinds,
                             const Options& options,
                             const std::function<void(const Soup&)>& done);

/// The share of the mean in Model Stock, n cos / (1 + (n - 1) cos), with the mean cosine between
/// the members as seen from the anchor; 0 where that is negative. `products` [1 + n x 1 + n] are
/// those of Members::products with the anchor first.
double stock_share(const Eigen::MatrixXd& products);

}  // namespace dimred::soup
