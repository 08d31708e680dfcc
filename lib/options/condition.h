#pragma once

#include <string>
#include <string_view>
#include <vector>

// When an option has an effect, as a value: over other rows of the same table, which it names.
namespace dimred {

struct Condition {
  enum class Test { always, is, above, has_value, given, all, any };
  Test test = Test::always;
  bool negated = false;
  std::string row;                  // of is, above, has_value and given
  std::vector<std::string> values;  // of is
  double bound = 0;                 // of above
  std::vector<Condition> parts;     // of all and any
};

inline Condition never() { return {.negated = true}; }
/// The row has one of these values, as its flag would give them.
Condition is(std::string row, std::vector<std::string> values);
/// A switch is on.
Condition is_on(std::string row);
/// A number is above `bound`.
Condition above(std::string row, double bound = 0);
/// A text, path, list or optional number is not empty.
Condition has_value(std::string row);
/// A flag or a file has set the row.
Condition given(std::string row);
Condition operator!(Condition condition);
Condition operator&&(Condition left, Condition right);
Condition operator||(Condition left, Condition right);

/// "schedule = step, exponential or plsc", "warmup_epochs or warmup_steps", "pca_mat to be unset";
/// a part that joins several things stands in brackets: "seed and (flip or pad > 0)". `prefix`
/// stands before each row's name.
std::string condition_text(const Condition& condition, std::string_view prefix = "");

}  // namespace dimred
