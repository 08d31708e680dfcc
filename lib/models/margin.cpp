#include "models/margin.h"

#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "support/errors.h"
#include "support/named.h"

namespace dimred::models {
namespace {

constexpr double pi = std::numbers::pi;

const std::vector<std::pair<std::string, MarginKind>> margin_kinds = {
    {"none", MarginKind::none},
    {"softmax", MarginKind::softmax},
    {"arcface", MarginKind::arcface},
    {"cosface", MarginKind::cosface},
    {"combined", MarginKind::combined}};

void add_margin_options(OptionTable& table, MarginOptions& margin) {
  table
      .add("margin_scale",
           &margin.scale,
           "scale s that multiplies all cosines (default: 64)",
           positive(300))
      .needs(is("margin_loss", {"arcface", "cosface", "combined"}));
  table
      .add("margin_m1",
           &margin.m1,
           "margin m1 that multiplies the angle to the target class (default: 1)",
           between(1, 4))
      .needs(is("margin_loss", {"combined"}));
  table
      .add("margin_m2",
           &margin.m2,
           "margin m2 added to the angle to the target class, in radians (default: 0.5)",
           less_than(pi))
      .needs(is("margin_loss", {"arcface", "combined"}));
  table
      .add("margin_m3",
           &margin.m3,
           "margin m3 subtracted from the cosine of the target class (default: 0.35 for cosface, "
           "else 0)",
           less_than(2))
      .needs(is("margin_loss", {"cosface", "combined"}));
  table
      .add_choice("margin_beyond_pi",
                  &margin.beyond,
                  "beyond pi, continue cos(m1 theta + m2) linearly or as a cosine; automatic: "
                  "linear if m1 = 1",
                  {{"automatic", BeyondPi::automatic},
                   {"linear", BeyondPi::linear},
                   {"cosine", BeyondPi::cosine}})
      .needs(is("margin_loss", {"arcface", "combined"}));
}

/// A number of a kind that has it, else 0.
double number_if(bool has, const std::optional<double>& given, double unset) {
  return has ? given.value_or(unset) : 0;
}

}  // namespace

Margin resolved(const MarginOptions& options) {
  HeadOptions head{.margin = options};
  OptionTable table("models", "");
  add_options(table, head);
  require_ranges(table, "margin_loss");
  const bool normalized = options.kind != MarginKind::softmax;
  const bool arcface = options.kind == MarginKind::arcface;
  const bool cosface = options.kind == MarginKind::cosface;
  const bool combined = options.kind == MarginKind::combined;
  Margin margin{.normalized = normalized,
                .scale = normalized ? options.scale.value_or(64) : 1,
                .m1 = combined ? options.m1.value_or(1) : 1,
                .m2 = number_if(arcface || combined, options.m2, 0.5),
                .m3 = number_if(cosface || combined, options.m3, cosface ? 0.35 : 0)};
  margin.beyond = options.beyond != BeyondPi::automatic ? options.beyond
                  : margin.m1 == 1                      ? BeyondPi::linear
                                                        : BeyondPi::cosine;
  require(margin.beyond == BeyondPi::cosine || margin.m1 == 1,
          "[margin_loss] margin_beyond_pi = linear needs m1 = 1, received {}",
          margin.m1);
  return margin;
}

void add_options(OptionTable& table, HeadOptions& options) {
  auto& margin = options.margin;
  table.group("Head", {.persists = true});
  table.add_choice("margin_loss",
                   &margin.kind,
                   "train embeddings with a class-sharded softmax and this margin; none: use the "
                   "network's own last layer",
                   margin_kinds);
  add_margin_options(table, margin);
  const auto has_head = !is("margin_loss", {"none"});
  table.add("embedding_size", &options.embedding_size, "length of an embedding", between(1, 65536))
      .needs(has_head);
  table
      .add("class_sampling_ratio",
           &options.sampling_ratio,
           "share of the classes in the softmax of each step; the classes of the batch are always "
           "included",
           positive(1))
      .needs(has_head);
}

MarginValues with_margin(const torch::Tensor& cosines, const Margin& margin, double least_sine) {
  const auto sine = ((1 - cosines) * (1 + cosines)).clamp_min(0).sqrt();
  const auto angle = margin.m1 * torch::acos(cosines) + margin.m2;
  MarginValues result{angle.cos() - margin.m3,
                      margin.m1 * angle.sin() / sine.clamp_min(least_sine)};
  if (margin.m1 == 1 && margin.m2 == 0) {
    result = {cosines - margin.m3, torch::ones_like(cosines)};  // exactly
  } else if (margin.beyond == BeyondPi::linear) {
    const auto beyond = cosines <= std::cos(pi - margin.m2);
    result.value =
        torch::where(beyond, cosines - margin.m2 * std::sin(margin.m2) - margin.m3, result.value);
    result.derivative = torch::where(beyond, 1.0, result.derivative);
  }
  return result;
}

}  // namespace dimred::models
