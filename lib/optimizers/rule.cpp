#include "optimizers/rule.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <map>

namespace dimred::optimizers {
namespace {

class ByRule : public Optimizer {
 public:
  ByRule(Rule rule,
         double weight_decay,
         const std::vector<Segment>& segments,
         const torch::Tensor& like)
      : rule_(std::move(rule)), weight_decay_(weight_decay) {
    for (const auto& state : rule_.state) state_.push_back(torch::full_like(like, state.initial));
    for (const auto& range : decay_ranges(segments)) cut(range, like.is_cpu());
  }

  bool is_idle(const StepControl& control) const override {
    return rule_.needs_rate && control.host_learning_rate() == 0;
  }

  void step(torch::Tensor& weights,
            const torch::Tensor& gradient,
            const StepControl& control) override {
    if (is_idle(control)) return;
    const torch::NoGradGuard no_grad;
    const auto shared = rule_.prepare ? rule_.prepare(control) : control.learning_rate();
    const auto pieces = std::ssize(pieces_);
    if (!weights.is_cpu()) {
      for (const auto& piece : pieces_) update(piece, weights, gradient, shared);
      return;
    }
    at::parallel_for(0, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      const torch::NoGradGuard no_grad_here;  // the guard is a thread's own
      for (auto i = begin; i < end; ++i) update(pieces_[i], weights, gradient, shared);
    });
  }

  std::map<std::string, torch::Tensor> vectors() override {
    std::map<std::string, torch::Tensor> all;
    for (std::size_t i = 0; i < state_.size(); ++i) all[rule_.state[i].name] = state_[i];
    return all;
  }

 private:
  /// 64 KiB a vector: three to five of them stay in a core's cache.
  void cut(const DecayRange& range, bool cpu) {
    const std::int64_t longest = cpu ? 16384 : range.columns.size();
    for (auto begin = range.columns.begin; begin < range.columns.end; begin += longest)
      pieces_.push_back({{begin, std::min(begin + longest, range.columns.end)}, range.decay});
  }

  void update(const DecayRange& piece,
              const torch::Tensor& weights,
              const torch::Tensor& gradient,
              const torch::Tensor& shared) const {
    const auto view = [&](const torch::Tensor& whole) {
      return whole.narrow(0, piece.columns.begin, piece.columns.size());
    };
    const double decay = piece.decay ? weight_decay_ : 0;
    ColumnViews columns{.weights = view(weights), .gradient = view(gradient)};
    columns.gradient = decay > 0 && !rule_.decoupled ? columns.gradient.add(columns.weights, decay)
                                                     : columns.gradient.clone();
    if (rule_.decoupled) columns.decoupled_decay = decay;
    for (const auto& vector : state_) columns.state.push_back(view(vector));
    rule_.update(columns, shared);
  }

  Rule rule_;
  double weight_decay_;
  std::vector<DecayRange> pieces_;
  std::vector<torch::Tensor> state_;
};

}  // namespace

std::unique_ptr<Optimizer> by_rule(Rule rule,
                                   double weight_decay,
                                   const std::vector<Segment>& segments,
                                   const torch::Tensor& like) {
  return std::make_unique<ByRule>(std::move(rule), weight_decay, segments, like);
}

}  // namespace dimred::optimizers
