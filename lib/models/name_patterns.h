#pragma once

#include <regex>
#include <string>
#include <vector>

namespace dimred::models {

/// A comma-separated list of regular expressions (ECMAScript). Each may match anywhere in a
/// tensor's name, so that a plain word is a substring: "conv1,bn1" or "^layer[12]\\.". The word
/// `logits` stands for the network's last layers. `global_step` is passed over: MoXing's lists have
/// it for a step count that here always starts at 0. Source: MoXing's checkpoint_exclude_patterns
/// and its like, whose documentation does not say whether patterns are anchored, but uses plain
/// words as parts of names.
class NamePatterns {
 public:
  /// `option` begins the messages; `logits` as NetworkInfo has it: "fc,AuxLogits.fc". Throws
  /// std::invalid_argument for an empty or broken pattern.
  NamePatterns(std::string option, const std::string& list, const std::string& logits);

  /// Nothing was asked for; a list of global_step alone asks for nothing that is there.
  bool empty() const { return empty_; }
  bool matches(const std::string& name) const;

  /// Throws std::invalid_argument for the first pattern that matches none of the names, with the
  /// nearest of them.
  void require_matches(const std::vector<std::string>& names) const;

 private:
  struct Pattern {
    std::string text;
    std::regex expression;
  };

  std::string option_;
  bool empty_ = true;
  std::vector<Pattern> patterns_;
};

/// Names that `include` matches (all, if it is empty) and `exclude` does not.
struct NameSelection {
  NamePatterns include, exclude;
  bool operator()(const std::string& name) const {
    return (include.empty() || include.matches(name)) && !exclude.matches(name);
  }
};

}  // namespace dimred::models
