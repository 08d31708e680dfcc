#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "distributed/process_group.h"

namespace dimred::distributed {

c10::intrusive_ptr<c10d::Backend> make_gloo(const GroupOptions& group) {
  using c10d::ProcessGroupGloo;
  const std::chrono::milliseconds timeout(static_cast<std::int64_t>(group.timeout * 1000));
  auto options = ProcessGroupGloo::Options::create(timeout);
  const char* given = std::getenv("GLOO_SOCKET_IFNAME");  // NOLINT(concurrency-mt-unsafe)
  const std::string interfaces = given == nullptr ? "" : given;
  const auto first = interfaces.substr(0, interfaces.find(','));  // c10d takes a list
  options->devices.push_back(first.empty()
                                 ? ProcessGroupGloo::createDeviceForHostname(group.address)
                                 : ProcessGroupGloo::createDeviceForInterface(first));
  return c10::make_intrusive<ProcessGroupGloo>(group.store, group.rank, group.size, options);
}

}  // namespace dimred::distributed
