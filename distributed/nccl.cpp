#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "distributed/process_group.h"

namespace dimred::distributed {

c10::intrusive_ptr<c10d::Backend> make_nccl(const GroupOptions& group) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::milliseconds(static_cast<std::int64_t>(group.timeout * 1000));
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(group.store, group.rank, group.size, options);
}

}  // namespace dimred::distributed
