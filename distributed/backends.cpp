#include "distributed/backends.h"

#ifdef DIMRED_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif
#ifdef DIMRED_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include "distributed/job_store.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::distributed {

#ifdef DIMRED_GLOO
c10::intrusive_ptr<c10d::Backend> make_gloo(const GroupOptions& group) {
  using c10d::ProcessGroupGloo;
  auto options = ProcessGroupGloo::Options::create(in_milliseconds(group.timeout));
  const auto interfaces = environment_text("GLOO_SOCKET_IFNAME");

  const auto first = interfaces.substr(0, interfaces.find(','));  // c10d takes a list
  options->devices.push_back(first.empty()
                                 ? ProcessGroupGloo::createDeviceForHostname(group.address)
                                 : ProcessGroupGloo::createDeviceForInterface(first));
  return c10::make_intrusive<ProcessGroupGloo>(group.store, group.rank, group.size, options);
}
#else
c10::intrusive_ptr<c10d::Backend> make_gloo(const GroupOptions& group) {
  fail_environment(
      "[distributed] {} ranks need Gloo, whose headers (libgloo-dev) were missing when this "
      "program "
      "was built",
      group.size);
}
#endif

#ifdef DIMRED_NCCL
c10::intrusive_ptr<c10d::Backend> make_nccl(const GroupOptions& group) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = in_milliseconds(group.timeout);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(group.store, group.rank, group.size, options);
}
#else
c10::intrusive_ptr<c10d::Backend> make_nccl(const GroupOptions& /*group*/) { return nullptr; }
#endif

}  // namespace dimred::distributed
