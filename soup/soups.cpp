#include "soup/soups.h"

#include <algorithm>
#include <cmath>

#include "method/method.h"
#include "soup/hull_space.h"
#include "support/errors.h"
#include "support/stopwatch.h"
#include "training/weights/soup.h"

namespace dimred::soup {
namespace {

namespace fs = std::filesystem;

/// The descent ends where a step lowers the loss by less: far below what a held-out set can tell.
constexpr double smallest_gain = 1e-5;

/// Backtracking BFGS on a loss without noise: every pair counts, and any decrease is taken.
method::MethodOptions descent() {
  method::MethodOptions options;
  options.search = {.rho = 0.5, .sigma = 1e-4, .trials = 20, .strict = true};
  options.residual = {.gamma = 0, .alpha = 0, .joint = false};
  return options;
}

/// One call of make_soups.
class Making {
 public:
  Making(training::Setup& setup, const std::vector<fs::path>& files, const Options& options)
      : setup_(setup), files_(files), options_(options), members_(files, setup.model.flat.layout) {
    members_.check_values();
  }

  Soup soup(Kind kind) {
    const Stopwatch clock;
    Soup soup{.kind = kind, .members = members_.names(), .blocks = members_.whole()};
    find(soup);
    set(kind == Kind::stock ? *stock_ : members_, soup);
    training::recalibrate_candidate(setup_);
    soup.seconds = clock.seconds();
    soup.validation = training::evaluate(setup_, *setup_.data.validation);
    if (setup_.data.test) soup.test = training::evaluate(setup_, *setup_.data.test);
    return soup;
  }

 private:
  void find(Soup& soup) {
    const auto n = members_.count();
    switch (soup.kind) {
      case Kind::best: {
        score_alone(soup);
        // Of equals the last, as the greedy choice begins.
        const auto best = std::max_element(alone_.rbegin(), alone_.rend());
        soup.coefficients = one(std::distance(best, alone_.rend()) - 1);
        return;
      }
      case Kind::mean:
        soup.coefficients = Coefficients::Constant(n, 1, 1.0 / static_cast<double>(n));
        return;
      case Kind::greedy:
        return find_greedy(soup);
      case Kind::stock:
        return find_stock(soup);
      case Kind::learned_layers:
        soup.blocks = members_.layers();
        [[fallthrough]];
      case Kind::learned:
        return learn(soup);
    }
  }

  Coefficients one(std::int64_t member) const {
    Coefficients c = Coefficients::Zero(members_.count(), 1);
    c(member, 0) = 1;
    return c;
  }

  void set(const Members& members, const Soup& soup) {
    const torch::NoGradGuard no_grad;
    members.combine(soup.coefficients, soup.blocks, setup_.model.flat.weights);
  }

  double accuracy(Soup& soup, const Coefficients& coefficients) {
    soup.coefficients = coefficients;
    set(members_, soup);
    soup.forward_images += training::recalibrate_candidate(setup_) + setup_.data.validation->size();
    return training::evaluate(setup_, *setup_.data.validation).accuracy;
  }

  /// Once; a later kind that asks for them has the same cost.
  void score_alone(Soup& soup) {
    if (alone_.empty()) {
      for (std::int64_t i = 0; i < members_.count(); ++i) alone_.push_back(accuracy(soup, one(i)));
      alone_images_ = soup.forward_images;
    }
    soup.forward_images = alone_images_;
  }

  void find_greedy(Soup& soup) {
    score_alone(soup);
    Coefficients taken = Coefficients::Zero(members_.count(), 1);  // 1 for each
    const auto with = [&](std::size_t i) -> Coefficients {
      return taken + one(static_cast<std::int64_t>(i));
    };
    training::choose_greedily(
        alone_,
        [&](std::size_t i) { return accuracy(soup, with(i) / with(i).sum()); },
        [&](std::size_t i) { taken = with(i); });
    soup.coefficients = taken / taken.sum();
  }

  void find_stock(Soup& soup) {
    require(!options_.anchor.empty(),
            "[soup] stock needs --anchor FILE, the weights before tuning");
    auto files = files_;
    files.insert(files.begin(), options_.anchor);
    stock_.emplace(files, setup_.model.flat.layout);
    const auto n = static_cast<double>(members_.count());
    soup.members = stock_->names();
    soup.blocks = stock_->layers();
    const auto products = stock_->products(soup.blocks);
    soup.coefficients.resize(stock_->count(), std::ssize(products));
    for (Eigen::Index block = 0; block < std::ssize(products); ++block) {
      const double share = stock_share(products[static_cast<std::size_t>(block)]);
      soup.coefficients.col(block).setConstant(share / n);
      soup.coefficients(0, block) = 1 - share;
    }
  }

  void learn(Soup& soup) {
    HeldOutLoss objective(setup_, *setup_.data.validation);
    HullSpace space(setup_, members_, soup.blocks, objective);
    auto method = method::make_method(descent(), space.block_sizes());
    bool fresh = true;  // H is I
    while (soup.steps < options_.steps) {
      const auto report = method->step(space, /*progress=*/0);
      require_environment(!report.not_finite,
                          "[soup] the held-out loss or its gradient is not finite after {} steps",
                          soup.steps);
      ++soup.steps;
      if (options_.progress) options_.progress(soup.steps, report.search.loss);
      const bool failed = report.search.outcome != method::SearchOutcome::accepted;
      const bool stands = failed || report.loss - report.search.loss < smallest_gain * report.loss;
      if (stands && fresh) break;
      // Steepest descent once more: H may have become a bad guess.
      if (stands) method = method::make_method(descent(), space.block_sizes());
      fresh = stands;
    }
    soup.coefficients = space.coefficients();
    soup.forward_images = objective.forward_images();
    soup.backward_images = objective.backward_images();
  }

  training::Setup& setup_;
  const std::vector<fs::path>& files_;
  const Options& options_;
  Members members_;
  std::optional<Members> stock_;  // the anchor, and then the members
  std::vector<double> alone_;     // accuracies of the members
  std::int64_t alone_images_ = 0;
};

}  // namespace

std::vector<std::pair<std::string, Kind>> kind_names() {
  return {{"best", Kind::best},
          {"mean", Kind::mean},
          {"greedy", Kind::greedy},
          {"stock", Kind::stock},
          {"learned", Kind::learned},
          {"learned_layers", Kind::learned_layers}};
}

double stock_share(const Eigen::MatrixXd& products) {
  const auto n = products.rows() - 1;
  double sum = 0;
  for (Eigen::Index i = 1; i <= n; ++i)
    for (Eigen::Index j = 1; j < i; ++j) {
      const double lengths = std::sqrt(products(i, i) * products(j, j));
      if (lengths > 0) sum += products(i, j) / lengths;
    }
  const double count = static_cast<double>(n);
  const double cosine = std::max(0.0, sum / (count * (count - 1) / 2));
  return count * cosine / (1 + (count - 1) * cosine);
}

std::vector<Soup> make_soups(training::Setup& setup,
                             const std::vector<fs::path>& members,
                             const std::vector<Kind>& kinds,
                             const Options& options,
                             const std::function<void(const Soup&)>& done) {
  require(setup.data.validation != nullptr,
          "[soup] chooses by samples that were held out: needs --validation_fraction > 0");
  Making making(setup, members, options);
  std::vector<Soup> soups;
  for (const auto kind : kinds) {
    soups.push_back(making.soup(kind));
    done(soups.back());
  }
  return soups;
}

}  // namespace dimred::soup
