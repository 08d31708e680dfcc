#include "stores/eviction.h"

#include <algorithm>
#include <map>
#include <utility>

namespace dimred::stores {

std::optional<std::vector<std::string>> evictions(const std::vector<CachedFile>& cached,
                                                  std::int64_t bytes,
                                                  std::int64_t room,
                                                  const std::vector<std::string>& wanted,
                                                  bool urgent) {
  std::map<std::string, std::int64_t> turn;  // in which they are wanted
  for (const auto& key : wanted) turn.emplace(key, std::ssize(turn));
  std::int64_t used = 0;
  std::vector<const CachedFile*> candidates;
  for (const auto& file : cached) {
    used += file.bytes;
    if (!file.fixed && (urgent || !turn.contains(file.key))) candidates.push_back(&file);
  }
  // Unwanted ones have no turn, and so come before all that have.
  const auto rank = [&](const CachedFile* file) {
    const auto found = turn.find(file->key);
    return found == turn.end() ? std::pair(std::int64_t{0}, file->since)
                               : std::pair(std::int64_t{1}, -found->second);
  };
  std::ranges::stable_sort(candidates, {}, rank);
  std::vector<std::string> keys;
  for (const auto* file : candidates) {
    if (used + bytes <= room) break;
    used -= file->bytes;
    keys.push_back(file->key);
  }
  if (used + bytes > room) return std::nullopt;
  return keys;
}

}  // namespace dimred::stores
