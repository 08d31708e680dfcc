#include "method/validate.h"

#include "method/option_rows.h"
#include "method/update_rules.h"

namespace dimred::method {

void validate(MethodOptions options) {
  PenaltyOptions none;
  OptionTable table("method", "");
  add_options(table, options, none);
  require_ranges(table, "method");
  update_rule(options.update_rule);
}

void validate(Preset preset) {
  OptionTable table("method", "");
  add_options(table, preset.method, preset.penalty);
  add_options(table, preset.average);
  require_ranges(table, "method");
  validate(preset.method);
}

}  // namespace dimred::method
