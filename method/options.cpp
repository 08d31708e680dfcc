#include "method/options.h"

namespace dimred::method {

std::vector<std::pair<std::string, MethodKind>> method_names() {
  return {{"quasi-newton", MethodKind::quasi_newton},
          {"psgd", MethodKind::psgd},
          {"sgd", MethodKind::sgd}};
}

}  // namespace dimred::method
