#include "method/options.h"

#include <algorithm>

#include "support/errors.h"

namespace dimred::method {

std::vector<std::pair<std::string, MethodKind>> method_names() {
  return {{"quasi-newton", MethodKind::quasi_newton},
          {"psgd", MethodKind::psgd},
          {"sgd", MethodKind::sgd}};
}

void require_in_range(const char* name, double value, const Range& range) {
  require(
      contains(range, value), "[method] {} needs {}, received {}", name, range_text(range), value);
}

void validate(MethodOptions options) {
  for_each_hyperparameter(options,
                          [](const char* name, auto value, const Range& range, const char*) {
                            require_in_range(name, static_cast<double>(value), range);
                          });
  const auto& rules = update_rules();
  require(std::ranges::any_of(rules, [&](const auto& r) { return r.first == options.update_rule; }),
          "[method] there is no update rule {}",
          options.update_rule);
}

}  // namespace dimred::method
