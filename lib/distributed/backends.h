#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace dimred::distributed {

/// The c10d backends of a group. Tensors go to the backend of their device; where there is none
/// (vectors on a GPU, Gloo alone) they pass through host memory.
struct Backends {
  c10::intrusive_ptr<c10d::Backend> host;    // Gloo
  c10::intrusive_ptr<c10d::Backend> device;  // NCCL; null without
};

/// The parameters from which a backend is made.
struct GroupOptions {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0, size = 1;
  double timeout = 0;   // seconds, of a collective
  std::string address;  // of this machine, as the others reach it; empty: let Gloo find it
};

/// Throws std::runtime_error where Gloo's headers were missing.
c10::intrusive_ptr<c10d::Backend> make_gloo(const GroupOptions& group);
/// nullptr where torch was built without NCCL, or there is no driver (cuda/cuda.h).
c10::intrusive_ptr<c10d::Backend> make_nccl(const GroupOptions& group);

}  // namespace dimred::distributed
