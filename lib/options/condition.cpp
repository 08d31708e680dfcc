#include "options/condition.h"

#include <algorithm>
#include <utility>

#include "support/formatted.h"
#include "support/text.h"

namespace dimred {
namespace {

using Test = Condition::Test;

/// "a", "a or b", "a, b or c".
std::string alternatives(const std::vector<std::string>& texts) {
  if (texts.size() < 2) return joined(texts, "");
  const std::vector<std::string> first(texts.begin(), texts.end() - 1);
  return formatted("{} or {}", joined(first, ", "), texts.back());
}

Condition combined(Test test, Condition left, Condition right) {
  Condition whole{.test = test};
  for (auto* part : {&left, &right}) {
    if (part->test == test && !part->negated)
      whole.parts.insert(whole.parts.end(), part->parts.begin(), part->parts.end());
    else
      whole.parts.push_back(std::move(*part));
  }
  return whole;
}

/// The text behind the row's name.
std::string tail_text(const Condition& condition) {
  if (condition.test == Test::is) return " = " + alternatives(condition.values);
  return condition.test == Test::above ? formatted(" > {}", condition.bound) : "";
}

/// Whether the text of a part needs brackets beside other parts: it joins several things itself.
bool is_joined(const Condition& part, Test around) {
  if (part.test == Test::is) return around == Test::any && part.values.size() > 1;
  return part.test == Test::all || part.test == Test::any;
}

std::vector<std::string> texts_of_parts(const Condition& whole, std::string_view prefix) {
  std::vector<std::string> texts;
  for (const auto& part : whole.parts) {
    const auto text = condition_text(part, prefix);
    texts.push_back(is_joined(part, whole.test) ? formatted("({})", text) : text);
  }
  return texts;
}

/// "schedule or alpha_schedule = step" where the tails are the same. "Other than" comes last, since
/// what stands behind would read as one of its values.
std::string alternatives_text(Condition whole, std::string_view prefix) {
  auto& parts = whole.parts;
  std::ranges::stable_partition(parts, [](const Condition& part) {
    return part.test != Test::is || !part.negated || part.values.front() == "true";
  });
  const auto tail = tail_text(parts.front());
  const bool same = std::ranges::all_of(parts, [&](const Condition& part) {
    return !part.row.empty() && !part.negated && tail_text(part) == tail;
  });
  if (!same) return alternatives(texts_of_parts(whole, prefix));
  std::vector<std::string> names;
  for (const auto& part : parts) names.push_back(formatted("{}{}", prefix, part.row));
  return alternatives(names) + tail;
}

}  // namespace

Condition is(std::string row, std::vector<std::string> values) {
  return {.test = Test::is, .row = std::move(row), .values = std::move(values)};
}

Condition is_on(std::string row) { return is(std::move(row), {"true"}); }

Condition above(std::string row, double bound) {
  return {.test = Test::above, .row = std::move(row), .bound = bound};
}

Condition has_value(std::string row) { return {.test = Test::has_value, .row = std::move(row)}; }

Condition given(std::string row) { return {.test = Test::given, .row = std::move(row)}; }

Condition operator!(Condition condition) {
  using enum Condition::Test;
  if (condition.test != all && condition.test != any) {
    condition.negated = !condition.negated;
    return condition;
  }
  condition.test = condition.test == all ? any : all;  // De Morgan
  for (auto& part : condition.parts) part = !std::move(part);
  return condition;
}

Condition operator&&(Condition left, Condition right) {
  return combined(Test::all, std::move(left), std::move(right));
}

Condition operator||(Condition left, Condition right) {
  return combined(Test::any, std::move(left), std::move(right));
}

std::string condition_text(const Condition& condition, std::string_view prefix) {
  const auto& [test, negated, row, values, bound, parts] = condition;
  const auto name = formatted("{}{}", prefix, row);
  switch (test) {
    case Test::always:
      return negated ? "something else" : "nothing";
    case Test::is:
      if (values == std::vector<std::string>{"true"}) return name + (negated ? " = false" : "");
      return negated ? formatted("{} other than {}", name, alternatives(values))
                     : name + tail_text(condition);
    case Test::above:
      return negated ? formatted("{} <= {}", name, bound) : name + tail_text(condition);
    case Test::has_value:
    case Test::given:
      return name + (negated ? " to be unset" : "");
    case Test::all:
      return joined(texts_of_parts(condition, prefix), " and ");
    case Test::any:
      return alternatives_text(condition, prefix);
  }
  return {};
}

}  // namespace dimred
