#include <algorithm>

#include "imports/fastnn.h"
#include "support/options.h"

// FastNN's learning rate (schedules/fastnn.cpp) and optimizers (optimizers/).
namespace dimred::imports::fastnn {
namespace {

void map_to(Line& line, std::vector<Setting> settings, std::string text = {}) {
  line.answer = Answer::mapped;
  line.settings = std::move(settings);
  line.text = std::move(text);
}

bool decays(const Values& values, const std::string& type) {
  return values.at("learning_rate_decay_type") == type && !values.at("decay_scheme").empty();
}

bool warms_up(const Values& values) {
  return values.at("learning_rate_decay_type") != "fixed" && values.at("warmup_steps") != "0";
}

void answer_type(Line& line, const Values& values) {
  const bool scheme = !values.at("decay_scheme").empty();
  if (line.value == "fixed") {
    map_to(line, {{"schedule", "constant"}}, "ignores warm-up and decay, as FastNN does");
  } else if (line.value == "exponential" || line.value == "polynomial") {
    const auto kind = line.value == "exponential" ? "exponential" : "fastnn-polynomial";
    if (!scheme) {
      map_to(line, {{"schedule", "constant"}}, "without a decay_scheme FastNN never decays");
    } else {
      map_to(line,
             {{"schedule", kind}},
             line.value == "polynomial"
                 ? "as published, at its end within one interval; schedule = "
                   "polynomial reaches it at the end"
                 : "");
    }
  } else {
    line.answer = Answer::refused;
    line.instead = "schedule";
    line.text = line.value == "cosine" ? "only in FastNN's HybridParallel copy"
                                       : "FastNN has fixed, exponential and polynomial";
  }
}

void answer_decay_scheme(Line& line, const Values& values) {
  const std::vector<std::string> names = {"luong5", "luong10", "luong234"};
  if (line.value.empty()) return;
  if (std::ranges::find(names, line.value) == names.end()) {
    line.answer = Answer::refused;
    line.instead = "decay_scheme";
    line.text = "FastNN has luong5, luong10 and luong234";
  } else if (decays(values, "exponential") || decays(values, "polynomial")) {
    map_to(line, {{"decay_scheme", line.value}});
  } else {
    line.text = "learning_rate_decay_type=fixed ignores it, as FastNN does";
  }
}

void answer_factor(Line& line, const Values& values) {
  if (decays(values, "exponential")) {
    map_to(
        line, {{"factor", line.value}}, "FastNN's documentation says halving; its code uses this");
  } else {
    line.text = "of exponential with a decay_scheme alone";
  }
}

void answer_end(Line& line, const Values& values) {
  if (decays(values, "polynomial")) {
    map_to(line, {{"end_learning_rate", line.value}});
  } else {
    line.text = "of polynomial with a decay_scheme alone";
  }
}

void answer_warmup_steps(Line& line, const Values& values) {
  if (line.value == "0") return;
  if (warms_up(values)) {
    map_to(line, {{"warmup_steps", line.value}, {"warmup_scheme", "t2t"}});
  } else {
    line.text = "learning_rate_decay_type=fixed ignores it, as FastNN does";
  }
}

void answer_warmup_scheme(Line& line, const Values& values) {
  if (line.value == "t2t") {
    line.text = warms_up(values) ? "is set with warmup_steps" : "there is no warm-up";
    return;
  }
  line.answer = Answer::refused;
  line.instead = "warmup_scheme";
  line.text = "FastNN has t2t alone, and silently no warm-up for any other name";
}

const std::vector<std::string>& optimizers() {
  static const std::vector<std::string> names = {
      "adadelta", "adagrad", "adam", "adamweightdecay", "ftrl", "momentum", "rmsprop", "sgd"};
  return names;
}

void answer_optimizer(Line& line, const Values&) {
  if (std::ranges::find(optimizers(), line.value) != optimizers().end()) {
    map_to(line, {{"optimizer", line.value}});
    return;
  }
  line.answer = Answer::refused;
  line.instead = "optimizer";
  const auto near = nearest(line.value, optimizers());
  line.text = "not an optimizer of FastNN's" + (near ? "; did you mean " + *near + "?" : "");
}

/// A parameter of some optimizers; no effect with the others.
Answerer of(std::vector<std::string> users, std::string name) {
  return [users = std::move(users), name = std::move(name)](Line& line, const Values& values) {
    const auto& chosen = values.at("optimizer");
    if (std::ranges::find(users, chosen) != users.end()) {
      map_to(line, {{name, line.value}});
    } else {
      line.text = "not of optimizer=" + chosen;
    }
  };
}

void answer_weight_decay(Line& line, const Values& values) {
  if (values.at("optimizer") == "adamweightdecay") {
    map_to(line, {{"weight_decay", "0.01"}}, "adamweightdecay's own, a constant in FastNN");
  } else {
    map_to(line,
           {{"weight_decay", line.value}},
           "L2 in the gradient; FastNN's own trainer never adds its regularisation loss");
  }
}

void answer_clip(Line& line, const Values&) {
  if (!line.value.empty()) map_to(line, {{"max_gradient_norm", line.value}});
}

}  // namespace

std::vector<Key> schedule_keys() {
  return {{"learning_rate", Type::number, "0.01", as("learning_rate")},
          {"learning_rate_decay_type", Type::text, "exponential", answer_type},
          {"end_learning_rate", Type::number, "0.0001", answer_end},
          {"learning_rate_decay_factor", Type::number, "0.94", answer_factor},
          {"warmup_steps", Type::integer, "0", answer_warmup_steps},
          {"warmup_scheme", Type::text, "t2t", answer_warmup_scheme},
          {"decay_scheme", Type::text, "", answer_decay_scheme}};
}

std::vector<Key> optimizer_keys() {
  const std::vector<std::string> adams = {"adam", "adamweightdecay"};
  const std::vector<std::string> with_epsilon = {"adadelta", "adam", "adamweightdecay", "rmsprop"};
  return {
      {"optimizer", Type::text, "rmsprop", answer_optimizer},
      {"weight_decay", Type::number, "0.00004", answer_weight_decay},
      {"max_gradient_norm", Type::number, "", answer_clip},
      {"opt_epsilon", Type::number, "1", of(with_epsilon, "opt_epsilon")},
      {"adadelta_rho", Type::number, "0.95", of({"adadelta"}, "adadelta_rho")},
      {"adagrad_initial_accumulator_value",
       Type::number,
       "0.1",
       of({"adagrad"}, "adagrad_initial_accumulator_value")},
      {"adam_beta1", Type::number, "0.9", of(adams, "adam_beta1")},
      {"adam_beta2", Type::number, "0.999", of(adams, "adam_beta2")},
      {"ftrl_learning_rate_power", Type::number, "-0.5", of({"ftrl"}, "ftrl_learning_rate_power")},
      {"ftrl_initial_accumulator_value",
       Type::number,
       "0.1",
       of({"ftrl"}, "ftrl_initial_accumulator_value")},
      {"ftrl_l1", Type::number, "0", of({"ftrl"}, "ftrl_l1")},
      {"ftrl_l2", Type::number, "0", of({"ftrl"}, "ftrl_l2")},
      {"momentum", Type::number, "0.9", of({"momentum"}, "momentum")},
      {"rmsprop_momentum", Type::number, "0.9", of({"rmsprop"}, "rmsprop_momentum")},
      {"rmsprop_decay", Type::number, "0.9", of({"rmsprop"}, "rmsprop_decay")}};
}

}  // namespace dimred::imports::fastnn
