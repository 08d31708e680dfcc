#include "method/update_rules.h"

#include "method/bfgs.h"

namespace dimred::method {

const std::vector<std::pair<std::string, UpdateRule>>& update_rules() {
  static const std::vector<std::pair<std::string, UpdateRule>> rules = {
      {"bfgs", bfgs},
  };
  return rules;
}

}  // namespace dimred::method
