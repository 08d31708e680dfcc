#include "tests/tools/gloo_ranks.h"

#include <ATen/Parallel.h>

#include <cstdlib>
#include <exception>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "distributed/process_group.h"

namespace dimred {

void on_gloo_ranks(int ranks,
                   const std::function<void(distributed::TensorCommunicator&)>& work,
                   int node_size) {
  // c10d's flight recorder adds each process group to a map without a lock: one rank a process.
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", 0);  // NOLINT(concurrency-mt-unsafe)
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        at::set_num_threads(1);
        const distributed::GroupOptions group{
            .store = store, .rank = rank, .size = ranks, .timeout = 30, .address = "127.0.0.1"};
        const auto communicator =
            distributed::process_group({.host = distributed::make_gloo(group)},
                                       rank,
                                       ranks,
                                       node_size > 0 ? node_size : ranks);
        work(*communicator);
        communicator->barrier();
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace dimred
