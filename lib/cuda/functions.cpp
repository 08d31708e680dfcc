// libdimred_cuda.so: the functions that a program finds in it. The library is linked apart from the
// rooms, and uses headers of those above this one.
#include "cuda/cuda.h"
#include "cuda/device_graph.h"
#include "distributed/backends.h"
#include "stage2/fused_cuda.h"

#ifdef DIMRED_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "distributed/job_store.h"
#endif

namespace dimred::cuda {
namespace {

#ifdef DIMRED_NCCL
c10::intrusive_ptr<c10d::Backend> make_nccl(const distributed::GroupOptions& group) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = distributed::in_milliseconds(group.timeout);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(group.store, group.rank, group.size, options);
}
#else
constexpr auto make_nccl = nullptr;
#endif

#ifdef DIMRED_CUDA_KERNELS
void project(const stage2::fused::Products& in, void* stream) { stage2::fused::launch(in, stream); }
void advance(const stage2::fused::Advance& in, void* stream) { stage2::fused::launch(in, stream); }
#else
constexpr auto project = nullptr;
constexpr auto advance = nullptr;
#endif

}  // namespace

extern "C" __attribute__((visibility("default"))) const Functions* dimred_cuda_functions() {
  static const Functions functions{.size = sizeof(Functions),
                                   .device_graphs = device_graphs,
                                   .make_nccl = make_nccl,
                                   .project = project,
                                   .advance = advance};
  return &functions;
}

}  // namespace dimred::cuda
