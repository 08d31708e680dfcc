#include "distributed/process_group.h"
#include "support/errors.h"

namespace dimred::distributed {

c10::intrusive_ptr<c10d::Backend> make_gloo(const GroupOptions& group) {
  throw std::runtime_error(
      formatted("[distributed] {} ranks need Gloo, whose headers (libgloo-dev) were missing when "
                "this program was built",
                group.size));
}

}  // namespace dimred::distributed
