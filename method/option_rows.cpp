#include "method/option_rows.h"

#include <string>
#include <utility>
#include <vector>

#include "method/update_rules.h"

// The one place where the names, ranges and meanings of a step's constants stand, and with which
// methods they have an effect.
namespace dimred::method {
namespace {

constexpr Range part{.low = 0, .high = 1, .high_open = true};

const std::vector<std::pair<std::string, Decay>> decays{{"constant", Decay::constant},
                                                        {"linear", Decay::linear},
                                                        {"cosine", Decay::cosine},
                                                        {"step", Decay::step}};

std::vector<std::pair<std::string, std::string>> rule_names() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [name, rule] : update_rules()) names.emplace_back(name, name);
  return names;
}

void add_search_options(OptionTable& table, ArmijoOptions& search) {
  const auto searched = is("method", {"quasi-newton"});
  table
      .add("rho",
           &search.contraction,
           "number that multiplies the step size after a failed trial",
           between_open(0, 1))
      .needs(searched);
  table
      .add("sigma",
           &search.sufficient_decrease,
           "sufficient decrease: accept loss(t) <= loss + sigma t slope",
           between_open(0, 1))
      .needs(searched);
  table
      .add("trials",
           &search.trials,
           "number of step sizes to try: 1, rho, rho^2, ...",
           between(1, 100))
      .needs(searched);
}

void add_residual_options(OptionTable& table, ResidualOptions& residual) {
  const auto has_residual = is("method", {"quasi-newton", "psgd"});
  table.add("gamma", &residual.gamma, "decay of the residual momentum: m <- gamma m + r", part)
      .needs(has_residual);
  table.add("alpha", &residual.alpha, "weight of the residual momentum in the step", at_least(0))
      .needs(has_residual);
}

void add_curvature_options(OptionTable& table, MethodOptions& method) {
  const auto learned = is("method", {"quasi-newton"});
  table
      .add("curvature_floor",
           &method.floors.absolute,
           "update inverse Hessian H only if curvature s'y is above this value",
           at_least(0))
      .needs(learned);
  table
      .add("relative_curvature_floor",
           &method.floors.relative,
           "update inverse Hessian H only if s'y / (|s| |y|) is above this value",
           part)
      .needs(learned);
  table
      .add_choice("update_rule",
                  &method.update_rule,
                  "formula that updates the inverse Hessian H",
                  rule_names())
      .needs(learned);
  table
      .add_choice("curvature",
                  &method.curvature,
                  "gradient change that updates H; between: from step to step; same: on one batch, "
                  "before and after a step (one extra gradient)",
                  {{"between", Curvature::between}, {"same", Curvature::same}})
      .needs(learned);
}

void add_rate_options(OptionTable& table, MethodOptions& method) {
  const auto has_rate = is("method", {"psgd", "sgd"});
  table.add("learning_rate", &method.rates.learning_rate, "step size of psgd and sgd", positive())
      .needs(has_rate);
  table.add("momentum", &method.rates.momentum, "momentum of psgd and sgd", part).needs(has_rate);
  table.add_choice("alpha_schedule", &method.alpha_schedule, "decay of alpha over the run", decays)
      .needs(is("method", {"quasi-newton", "psgd"}));
  table.add_choice("schedule", &method.schedule, "decay of learning_rate over the run", decays)
      .needs(has_rate);
  table
      .add("first_drop",
           &method.first_drop,
           "share of the run after which the step schedule divides rate or alpha by ten; a share "
           "below 3/4 adds a second drop at 3/4",
           part)
      .needs(is("schedule", {"step"}) || is("alpha_schedule", {"step"}));
}

}  // namespace

void add_options(OptionTable& table, MethodOptions& method, PenaltyOptions& penalty) {
  table.add_choice("method",
                   &method.kind,
                   "quasi-newton with a line search, psgd (SGD in the subspace), or sgd (in all "
                   "weights)",
                   method_names());
  add_search_options(table, method.search);
  add_residual_options(table, method.residual);
  add_curvature_options(table, method);
  add_rate_options(table, method);
  table.add("weight_decay",
            &penalty.weight_decay,
            "L2 penalty added to loss and gradient, in every method",
            at_least(0));
  table
      .add_choice(
          "weight_decay_of",
          &penalty.weight_decay_all,
          "parameters with weight decay: only weights, or also biases and BatchNorm's parameters",
          {{"weights", false}, {"all", true}})
      .needs(above("weight_decay"));
  table.add("sam_radius",
            &penalty.sam_radius,
            "use the loss at w + radius g / |g| (SAM), which costs one more gradient; 0: off",
            at_least(0));
}

void add_options(OptionTable& table, AverageOptions& average) {
  table.add_choice("average",
                   &average.kind,
                   "result: the last iterate, or a uniform, exponential (ema) or schedule-free "
                   "mean of the iterates",
                   {{"none", AverageKind::none},
                    {"uniform", AverageKind::uniform},
                    {"ema", AverageKind::ema},
                    {"schedule_free", AverageKind::schedule_free}});
  table.add("average_from", &average.from, "the mean begins after this share of the run", part)
      .needs(is("average", {"uniform", "ema"}));
  table.add("ema_decay", &average.decay, "decay of the exponential mean per step", part)
      .needs(is("average", {"ema"}));
}

}  // namespace dimred::method
