#include "checkpoints/tied.h"

#include <algorithm>
#include <map>

namespace dimred::checkpoints {

TiedGroups tied_groups(std::span<const StoredTensor> tensors) {
  std::map<std::vector<StoredBox>, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].boxes.empty() && tensors[i].elements() > 0)
      places[tensors[i].boxes].push_back(i);
  TiedGroups groups;
  for (const auto& [boxes, group] : places)
    if (group.size() > 1) groups.push_back(group);
  std::ranges::sort(groups);
  return groups;
}

std::vector<std::size_t> tied_with(const TiedGroups& groups, std::size_t tensor) {
  for (const auto& group : groups)
    if (std::ranges::find(group, tensor) != group.end()) return group;
  return {tensor};
}

}  // namespace dimred::checkpoints
