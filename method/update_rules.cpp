#include "method/update_rules.h"

#include "support/errors.h"

namespace dimred::method {

const std::vector<std::pair<std::string, UpdateRule*>>& update_rules() {
#define DIMRED_UPDATE_RULE(name) {#name, name},
  static const std::vector<std::pair<std::string, UpdateRule*>> rules = {
#include "method/update_rules.inc"
  };
#undef DIMRED_UPDATE_RULE
  return rules;
}

UpdateRule* update_rule(const std::string& name) {
  for (const auto& [known, rule] : update_rules())
    if (known == name) return rule;
  refuse("[method] the update rule {} is unknown", name);
}

}  // namespace dimred::method
