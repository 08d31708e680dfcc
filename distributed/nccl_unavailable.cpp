#include "distributed/process_group.h"

namespace dimred::distributed {

c10::intrusive_ptr<c10d::Backend> make_nccl(const GroupOptions& /*group*/) { return nullptr; }

}  // namespace dimred::distributed
