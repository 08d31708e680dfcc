#include "models/name_patterns.h"

#include <algorithm>

#include "support/errors.h"
#include "support/suggestion.h"
#include "support/text.h"

namespace dimred::models {
namespace {

/// "fc,AuxLogits.fc" -> "^(fc|AuxLogits\.fc)\."
std::string expression_of_layers(const std::string& layers) {
  std::string names;
  for (const auto& layer : split_list(layers)) {
    if (!names.empty()) names += '|';
    for (const char letter : layer) {
      if (letter == '.') names += '\\';
      names += letter;
    }
  }
  return "^(" + names + ")\\.";
}

/// The names and their layers.
std::vector<std::string> candidates_of(const std::vector<std::string>& names) {
  std::vector<std::string> candidates{"logits"};
  for (const auto& name : names) {
    candidates.push_back(name);
    for (auto end = name.rfind('.'); end != std::string::npos && end > 0;
         end = name.rfind('.', end - 1))
      candidates.push_back(name.substr(0, end));
  }
  return candidates;
}

}  // namespace

NamePatterns::NamePatterns(std::string option, const std::string& list, const std::string& logits)
    : option_(std::move(option)), empty_(list.empty()) {
  for (const auto& text : split_list(list)) {
    require(!text.empty(),
            "[{}] needs a pattern before and after each comma, received {}",
            option_,
            list);
    if (text == "global_step") continue;
    require(
        text != "logits" || !logits.empty(),
        "[{}] 'logits' means the last layer, which dimred does not know in a TorchScript module; "
        "give patterns of parameter names instead",
        option_);
    const auto expression = text == "logits" ? expression_of_layers(logits) : text;
    try {
      patterns_.push_back({text, std::regex(expression)});
    } catch (const std::regex_error& error) {
      refuse("[{}] needs regular expressions, received {}: {}", option_, text, error.what());
    }
  }
}

bool NamePatterns::matches(const std::string& name) const {
  return std::ranges::any_of(patterns_, [&](const Pattern& pattern) {
    return std::regex_search(name, pattern.expression);
  });
}

void NamePatterns::require_matches(const std::vector<std::string>& names) const {
  for (const auto& pattern : patterns_) {
    const bool used = std::ranges::any_of(
        names, [&](const auto& name) { return std::regex_search(name, pattern.expression); });
    if (!used)
      refuse("[{}] needs patterns that match the name of a tensor, received {}{}",
             option_,
             pattern.text,
             suggestion(pattern.text, candidates_of(names)));
  }
}

}  // namespace dimred::models
