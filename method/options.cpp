#include "method/options.h"

#include "method/option_rows.h"
#include "support/errors.h"

namespace dimred::method {

std::vector<std::pair<std::string, MethodKind>> method_names() {
  return {{"quasi-newton", MethodKind::quasi_newton},
          {"psgd", MethodKind::psgd},
          {"sgd", MethodKind::sgd}};
}

void validate(MethodOptions options) {
  PenaltyOptions none;
  OptionTable table("method", "");
  add_options(table, options, none);
  require_ranges(table, "method");
  update_rule(options.update_rule);
}

}  // namespace dimred::method
