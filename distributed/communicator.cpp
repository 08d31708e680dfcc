#include "distributed/communicator.h"

#include <array>
#include <cstdlib>
#include <string>

#include "support/errors.h"

namespace dimred::distributed {
namespace {

class SingleRank final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(std::span<double> /*values*/) override {}
  void all_reduce(torch::Tensor& /*values*/) override {}
  torch::Tensor reduce_scatter(const torch::Tensor& full,
                               const std::vector<layout::Shard>& /*shards*/) override {
    return full;
  }
  torch::Tensor all_gather(const torch::Tensor& own,
                           const std::vector<layout::Shard>& /*shards*/) override {
    return own;
  }
  void broadcast(torch::Tensor& /*values*/, int /*root*/) override {}
  void barrier() override {}
};

}  // namespace

std::unique_ptr<Communicator> connect() {
  for (const char* name : {"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"}) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread
    if (value == nullptr) continue;
    require(std::string(value) == "1",
            "distributed::connect",
            "this version runs one rank, received ",
            name,
            " = ",
            value);
  }
  return std::make_unique<SingleRank>();
}

bool any_rank(Communicator& communicator, bool flag) {
  std::array<double, 1> count{flag ? 1.0 : 0.0};
  communicator.all_reduce(count);
  return count[0] > 0;
}

}  // namespace dimred::distributed
