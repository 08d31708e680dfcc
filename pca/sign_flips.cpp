#include "pca/sign_flips.h"

#include <algorithm>
#include <numeric>

#include "support/errors.h"
#include "support/random.h"

namespace dimred::pca {
namespace {

constexpr std::int64_t draws_at_a_time = 128;  // so that a product's operands stay in the cache

}  // namespace

void require_not_stopped(const SignFlips& flips) {
  require_environment(flips.stop == nullptr || !*flips.stop,
                      "[trajectory] the test was stopped before its end");
}

Eigen::MatrixXd draw_signs(const SignFlips& flips,
                           std::int64_t increments,
                           std::int64_t first,
                           std::int64_t width) {
  require_not_stopped(flips);
  Eigen::MatrixXd signs = Eigen::MatrixXd::Ones(increments, width);
  for (std::int64_t draw = std::max<std::int64_t>(first, 1); draw < first + width; ++draw) {
    RandomStream stream(flips.seed, RandomPurpose::signs, flips.block, draw);
    std::uint32_t bits = 0;
    for (std::int64_t block = 0; block * flips.block < increments; ++block, bits >>= 1) {
      if (block % 32 == 0) bits = stream.next();
      const auto begin = block * flips.block;
      const auto size = std::min(flips.block, increments - begin);
      if (bits % 2 == 1) signs.col(draw - first).segment(begin, size).setConstant(-1);
    }
  }
  return signs;
}

double Tails::two_sided() const { return std::min(1.0, 2 * std::min(above, below)); }

void TailCounts::add(const Eigen::ArrayXXd& drawn, const Eigen::ArrayXd& measured) {
  const auto width = static_cast<double>(drawn.cols());
  const Eigen::ArrayXXd more = drawn.colwise() - measured;
  const Eigen::ArrayXd equal = rounding_of_draws * measured.abs();
  // Negated, so that what is no number is no evidence.
  above += width - (more.colwise() + equal < 0).rowwise().count().cast<double>();
  below += width - (more.colwise() - equal > 0).rowwise().count().cast<double>();
}

std::vector<Tails> tails_by_signs(const SignFlips& flips,
                                  std::int64_t increments,
                                  const Statistics& statistics) {
  const auto draws = flips.count + 1;
  Eigen::ArrayXd measured;
  TailCounts counts(0);
  for (std::int64_t first = 0; first < draws; first += draws_at_a_time) {
    const auto width = std::min(draws_at_a_time, draws - first);
    const auto drawn = statistics(draw_signs(flips, increments, first, width));
    if (first == 0) {
      measured = drawn.col(0);
      counts = TailCounts(measured.size());
    }
    counts.add(drawn, measured);
  }
  std::vector<Tails> tails;
  for (Eigen::Index i = 0; i < measured.size(); ++i) {
    tails.push_back({counts.above[i] / static_cast<double>(draws),
                     counts.below[i] / static_cast<double>(draws)});
  }
  return tails;
}

std::vector<double> adjusted_by_holm(const std::vector<double>& p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p_values[i]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const auto left = static_cast<double>(order.size() - rank);
    largest = std::max(largest, std::min(1.0, left * p_values[order[rank]]));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

}  // namespace dimred::pca
