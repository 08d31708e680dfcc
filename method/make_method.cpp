#include "method/make_method.h"

#include "method/quasi_newton.h"
#include "method/sgd.h"
#include "method/validate.h"

namespace dimred::method {

std::unique_ptr<Method> make_method(const MethodOptions& options,
                                    std::span<const Eigen::Index> block_sizes) {
  validate(options);
  if (options.kind == MethodKind::quasi_newton)
    return std::make_unique<QuasiNewton>(options, block_sizes);
  return std::make_unique<Sgd>(options, block_sizes);
}

}  // namespace dimred::method
