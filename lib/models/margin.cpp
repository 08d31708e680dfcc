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

std::string name(MarginKind kind) { return listed_name(margin_kinds, kind); }

/// A margin that the kind leaves at its neutral value may be given as that value alone.
double number_of(const std::optional<double>& given,
                 double unset,
                 bool fixed,
                 const char* which,
                 MarginKind kind) {
  require(!fixed || !given || *given == unset,
          "[models::margin] {} has {} = {}; combined takes another, received {}",
          name(kind),
          which,
          unset,
          given.value_or(unset));
  return given.value_or(unset);
}

void require_margin(const Margin& margin) {
  const auto& [normalized, s, m1, m2, m3, beyond] = margin;
  require(s > 0 && s <= 300, "[models::margin] margin_scale needs (0, 300], received {}", s);
  require(m1 >= 1 && m1 <= 4, "[models::margin] margin_m1 needs [1, 4], received {}", m1);
  require(m2 >= 0 && m2 < pi,
          "[models::margin] margin_m2 needs [0, pi): from pi on no angle is left, received {}",
          m2);
  require(
      m3 >= 0 && m3 < 2,
      "[models::margin] margin_m3 needs [0, 2): from 2 on every target lies below -1, received {}",
      m3);
  require(beyond == BeyondPi::cosine || m1 == 1,
          "[models::margin] margin_beyond_pi = linear needs m1 = 1, received {}",
          m1);
}

}  // namespace

Margin resolved(const MarginOptions& options) {
  const auto kind = options.kind;
  const bool softmax = kind == MarginKind::softmax;
  const bool arcface = kind == MarginKind::arcface;
  const bool cosface = kind == MarginKind::cosface;
  const bool combined = kind == MarginKind::combined;
  require(!softmax || !options.scale,
          "[models::margin] softmax has no margin_scale, received {}",
          options.scale.value_or(0));
  Margin margin{.normalized = !softmax, .scale = softmax ? 1 : options.scale.value_or(64)};
  margin.m1 = number_of(options.m1, 1, !combined, "margin_m1", kind);
  margin.m2 =
      number_of(options.m2, arcface || combined ? 0.5 : 0, softmax || cosface, "margin_m2", kind);
  margin.m3 = number_of(options.m3, cosface ? 0.35 : 0, softmax || arcface, "margin_m3", kind);
  margin.beyond = options.beyond != BeyondPi::automatic ? options.beyond
                  : margin.m1 == 1                      ? BeyondPi::linear
                                                        : BeyondPi::cosine;
  require_margin(margin);
  return margin;
}

void validate(const HeadOptions& options) {
  const auto& margin = options.margin;
  if (margin.kind != MarginKind::none) {
    resolved(margin);
    return;
  }
  const HeadOptions plain;
  const bool idle = !margin.scale && !margin.m1 && !margin.m2 && !margin.m3 &&
                    margin.beyond == BeyondPi::automatic &&
                    options.embedding_size == plain.embedding_size && options.sampling_ratio == 1;
  require(idle,
          "[models::margin] margin_scale, margin_m1, margin_m2, margin_m3, margin_beyond_pi, "
          "embedding_size and class_sampling_ratio need a margin_loss, received none");
}

void add_options(OptionTable& table, HeadOptions& options) {
  auto& margin = options.margin;
  table.group("Head", {.persists = true});
  table.add_choice(
      "margin_loss",
      &margin.kind,
      "none: the network's own last layer and cross-entropy; else the network puts out "
      "features x, and class weights w behind it, sharded over ranks, make softmax: "
      "plain logits x w, or cosines of normalised x and w, times margin_scale, the "
      "target's with a margin: arcface of the angle, cosface of the cosine, combined "
      "both",
      margin_kinds);
  table.add("margin_scale", &margin.scale, "of all cosines; unset: 64", positive(300));
  table.add("margin_m1",
            &margin.m1,
            "the target's angle is multiplied by this (combined); unset: 1",
            between(1, 4));
  table.add("margin_m2",
            &margin.m2,
            "added to the target's angle, in radians; unset: 0.5 of arcface and combined",
            less_than(pi));
  table.add("margin_m3",
            &margin.m3,
            "taken off the target's cosine; unset: 0.35 of cosface",
            less_than(2));
  table.add_choice("margin_beyond_pi",
                   &margin.beyond,
                   "a target of m1 theta + m2 > pi: linear cos theta - m2 sin m2 (insightface), "
                   "cosine the formula as it is (PLSC); automatic: linear where m1 = 1",
                   {{"automatic", BeyondPi::automatic},
                    {"linear", BeyondPi::linear},
                    {"cosine", BeyondPi::cosine}});
  table.add("embedding_size",
            &options.embedding_size,
            "numbers in a feature and in a class's weights",
            between(1, 65536));
  table.add("class_sampling_ratio",
            &options.sampling_ratio,
            "part of the classes that the softmax runs over, drawn at each step beside the batch's "
            "own; 1: all",
            positive(1));
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
