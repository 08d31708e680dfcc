#include "method/update_rules.h"

namespace dimred::method {

const std::vector<std::pair<std::string, UpdateRule*>>& update_rules() {
#define DIMRED_UPDATE_RULE(name) {#name, name},
  static const std::vector<std::pair<std::string, UpdateRule*>> rules = {
#include "method/update_rules.inc"
  };
#undef DIMRED_UPDATE_RULE
  return rules;
}

}  // namespace dimred::method
