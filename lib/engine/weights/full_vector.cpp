#include "engine/weights/full_vector.h"

#include <algorithm>

#include "support/agreement.h"
#include "support/errors.h"

namespace dimred::engine {
namespace {

constexpr std::int64_t most_at_a_time = std::int64_t{4} << 20;  // elements of a rank

/// Places of each rank's elements in the entry: the end of one is the next one's beginning.
std::vector<std::int64_t> bounds_of(const layout::Entry& entry, Communicator& communicator) {
  std::vector<double> sizes(communicator.size());
  sizes[communicator.rank()] = entry.size;
  communicator.sum(sizes);
  std::vector<std::int64_t> bounds{0};
  for (const std::int64_t size : sizes) bounds.push_back(bounds.back() + size);
  check(bounds.back() == entry.global_size, "ranks have all rows of a sharded parameter");
  return bounds;
}

/// Elements [begin, begin + most_at_a_time) of every rank's part, one rank's after another's.
std::vector<layout::Shard> parts_at(const std::vector<std::int64_t>& bounds, std::int64_t begin) {
  std::vector<std::int64_t> sizes;
  for (std::size_t rank = 0; rank + 1 < bounds.size(); ++rank)
    sizes.push_back(
        std::clamp<std::int64_t>(bounds[rank + 1] - bounds[rank] - begin, 0, most_at_a_time));
  return layout::consecutive(sizes);
}

/// The entry's elements of all ranks, into `whole` on rank 0. A sharded entry lies in memory as in
/// files.
void gather_entry(const layout::Entry& entry,
                  const torch::Tensor& memory,
                  distributed::TensorCommunicator& communicator,
                  std::vector<float>& whole) {
  const auto bounds = bounds_of(entry, communicator);
  std::int64_t longest = 0;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i)
    longest = std::max(longest, bounds[i + 1] - bounds[i]);
  const auto own = memory.narrow(0, entry.memory_offset, entry.size);
  for (std::int64_t begin = 0; begin < longest; begin += most_at_a_time) {
    const auto size = std::clamp<std::int64_t>(entry.size - begin, 0, most_at_a_time);
    const auto parts = parts_at(bounds, begin);
    const auto all =
        communicator.all_gather(own.narrow(0, std::min(begin, entry.size), size), parts)
            .cpu()
            .contiguous();
    if (communicator.rank() != 0) continue;
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      for (const auto& range : parts[rank].memory)
        std::copy_n(all.const_data_ptr<float>() + range.begin,
                    range.size(),
                    whole.data() + entry.global_offset + bounds[rank] + begin);
    }
  }
}

}  // namespace

std::vector<float> full_vector(const Setup& setup, const torch::Tensor& memory) {
  const auto& layout = setup.model.flat.layout;
  auto& communicator = *setup.communicator;
  std::vector<float> whole;
  if (communicator.rank() == 0) whole = models::to_file(layout, memory);
  if (!layout.sharded()) return whole;
  // Sharded entries come last, so what is replicated has its place already.
  if (communicator.rank() == 0) whole.resize(layout.global_size);
  const auto values = memory.detach();
  for (const auto& entry : layout.entries) {
    if (entry.placement == layout::Placement::sharded)
      gather_entry(entry, values, communicator, whole);
  }
  return whole;
}

bool on_all_ranks(const Setup& setup, bool holds) {
  return setup.model.flat.layout.sharded() ? !any_rank(*setup.communicator, !holds) : holds;
}

std::string replicated_digest(const Setup& setup) {
  const auto& flat = setup.model.flat;
  return models::digest_of(flat.weights.narrow(0, 0, flat.layout.replicated_size));
}

}  // namespace dimred::engine
