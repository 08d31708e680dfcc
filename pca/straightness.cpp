#include "pca/straightness.h"

#include <algorithm>
#include <mutex>

#include "pca/dense.h"
#include "support/ceiling.h"
#include "support/parallel.h"

namespace dimred::pca {
namespace {

using Eigen::ArrayXd;
using Eigen::ArrayXXd;
using Eigen::MatrixXd;

constexpr std::int64_t trajectories_at_a_time = 256;

/// Draws whose products of signs a thread holds: at most 32 MiB of them, or those of 16 draws.
std::int64_t draws_in_a_product(std::int64_t pairs) {
  return std::clamp((std::int64_t{1} << 22) / std::max<std::int64_t>(1, pairs),
                    std::int64_t{16},
                    std::int64_t{512});
}

/// S of signs s that blocks of increments share: constant + sum of pairs s_b s_c, b < c.
struct Forms {
  MatrixXd pairs;  // [blocks (blocks - 1) / 2 x T]
  ArrayXd constant;
};

Forms forms_of(std::span<const MatrixXd> grams, std::int64_t block) {
  const auto n = grams.front().rows();
  const auto blocks = ceiling(n, block);
  Forms forms{MatrixXd(blocks * (blocks - 1) / 2, std::ssize(grams)), ArrayXd(std::ssize(grams))};
  const auto size = [&](std::int64_t b) { return std::min(block, n - b * block); };
  for (std::int64_t t = 0; t < std::ssize(grams); ++t) {
    const auto& gram = grams[t];
    const double trace = gram.trace();
    double* pair = forms.pairs.data() + t * forms.pairs.rows();
    double diagonal = 0;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const auto rows = gram.middleRows(b * block, size(b));
      diagonal += rows.middleCols(b * block, size(b)).sum();
      for (std::int64_t c = b + 1; c < blocks; ++c)
        *pair++ = 2 * rows.middleCols(c * block, size(c)).sum() / trace;
    }
    forms.constant[t] = diagonal / trace;
  }
  return forms;
}

/// s_b s_c, b < c, of draws first..first + width - 1: [pairs x width].
MatrixXd products_of_signs(const SignFlips& flips,
                           std::int64_t increments,
                           std::int64_t first,
                           std::int64_t width) {
  const auto signs = draw_signs(flips, increments, first, width);
  const auto blocks = ceiling(increments, flips.block);
  MatrixXd products(blocks * (blocks - 1) / 2, width);
  double* product = products.data();
  for (std::int64_t draw = 0; draw < width; ++draw)
    for (std::int64_t b = 0; b < blocks; ++b)
      for (std::int64_t c = b + 1; c < blocks; ++c)
        *product++ = signs(b * flips.block, draw) * signs(c * flips.block, draw);
  return products;
}

/// Counts over T trajectories.
struct Counted {
  TailCounts plain;      // the draws as they are
  TailCounts stretched;  // times the factors; 0 without any
};

void operator+=(TailCounts& all, const TailCounts& part) {
  all.above += part.above;
  all.below += part.below;
}

/// Counts draws [T x width] of the trajectories from `first` on.
void add(const ArrayXXd& drawn, const ArrayXd& measured, std::int64_t first, TailCounts& all) {
  TailCounts part(measured.size());
  part.add(drawn, measured);
  all.above.segment(first, measured.size()) += part.above;
  all.below.segment(first, measured.size()) += part.below;
}

/// Some draws of all trajectories. factors: [T], or none. measured [T] is set by those of draw 0.
Counted count_draws(const Forms& forms,
                    const MatrixXd& products,
                    const ArrayXd& factors,
                    bool first,
                    ArrayXd& measured) {
  const auto all = measured.size();
  Counted counted{TailCounts(all), TailCounts(all)};
  for (std::int64_t t = 0; t < all; t += trajectories_at_a_time) {
    const auto count = std::min<std::int64_t>(trajectories_at_a_time, all - t);
    const ArrayXXd drawn =
        transposed_product(forms.pairs.middleCols(t, count), products).array().colwise() +
        forms.constant.segment(t, count);
    if (first) measured.segment(t, count) = drawn.col(0);
    const ArrayXd own = measured.segment(t, count);
    add(drawn, own, t, counted.plain);
    if (factors.size() > 0)
      add(drawn.colwise() * factors.segment(t, count), own, t, counted.stretched);
  }
  return counted;
}

Counted count_all(std::span<const MatrixXd> grams,
                  const SignFlips& flips,
                  const ArrayXd& factors,
                  std::int64_t threads) {
  const auto forms = forms_of(grams, flips.block);
  const auto n = grams.front().rows();
  const auto size = std::ssize(grams);
  const auto draws = flips.count + 1;
  const auto most = draws_in_a_product(forms.pairs.rows());
  ArrayXd measured(size);
  Counted all{TailCounts(size), TailCounts(size)};
  std::mutex mutex;
  const auto count = [&](std::int64_t chunk) {
    const auto first = chunk * most;
    const auto width = std::min(most, draws - first);
    const auto products = products_of_signs(flips, n, first, width);
    const auto part = count_draws(forms, products, factors, chunk == 0, measured);
    const std::lock_guard lock(mutex);
    all.plain += part.plain;
    all.stretched += part.stretched;
  };
  count(0);
  in_parallel(ceiling(draws, most) - 1, threads, [&](std::int64_t i) { count(i + 1); });
  return all;
}

Tails tails_of(const TailCounts& counts, Eigen::Index trajectory, const SignFlips& flips) {
  const auto draws = static_cast<double>(flips.count + 1);
  return {counts.above[trajectory] / draws, counts.below[trajectory] / draws};
}

}  // namespace

std::vector<Straightness> straightness_of_all(std::span<const MatrixXd> grams,
                                              std::span<const double> cosines,
                                              const WalkNull& null,
                                              std::int64_t threads) {
  std::vector<Straightness> all(grams.size());
  if (grams.empty()) return all;
  const auto size = std::ssize(grams);
  const ArrayXd cosine = Eigen::Map<const ArrayXd>(cosines.data(), size);
  const ArrayXd factors = (1 + cosine) / (1 - cosine);
  const auto singles = count_all(grams, null.increments, factors, threads);
  const auto blocks = count_all(grams, null.blocks, ArrayXd(), threads);
  for (std::int64_t t = 0; t < size; ++t) {
    const auto tails = tails_of(singles.plain, t, null.increments);
    all[t].all_alike = tails.above == 1 && tails.below == 1;
    all[t].walk = {grams[t].sum() / grams[t].trace(),
                   1,
                   tails.two_sided(),
                   tails_of(blocks.plain, t, null.blocks).two_sided()};
    all[t].p_momentum = std::min(1.0, 2 * tails_of(singles.stretched, t, null.increments).above);
  }
  return all;
}

}  // namespace dimred::pca
