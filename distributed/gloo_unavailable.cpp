#include "distributed/process_group.h"
#include "support/errors.h"

namespace dimred::distributed {

c10::intrusive_ptr<c10d::Backend> make_gloo(const GroupPlace& place) {
  throw std::runtime_error(concat("[distributed] ",
                                  place.size,
                                  " ranks need Gloo, whose headers (libgloo-dev) were missing when "
                                  "this program was built"));
}

}  // namespace dimred::distributed
