#include "distributed/backends.h"

#ifdef DIMRED_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif

#include <csignal>

#include "cuda/cuda.h"
#include "distributed/job_store.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::distributed {

#ifdef DIMRED_GLOO
c10::intrusive_ptr<c10d::Backend> make_gloo(const GroupOptions& group) {
  using c10d::ProcessGroupGloo;
  // Gloo writes to its sockets without MSG_NOSIGNAL: a rank whose peer has died would end by the
  // signal, without a line.
  std::signal(SIGPIPE, SIG_IGN);
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
      "[distributed] {} ranks need Gloo, but this program was built without Gloo; install "
      "libgloo-dev and build again",
      group.size);
}
#endif

c10::intrusive_ptr<c10d::Backend> make_nccl(const GroupOptions& group) {
  const auto* functions = cuda::library().functions;
  if (functions == nullptr || functions->make_nccl == nullptr) return nullptr;
  return functions->make_nccl(group);
}

}  // namespace dimred::distributed
