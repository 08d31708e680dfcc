#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dimred::stores {

/// A file of a bounded cache, or what is there of one that is being fetched.
struct CachedFile {
  std::string key;
  std::int64_t bytes = 0;  // of one that is being fetched, all that it will have
  std::int64_t since = 0;  // when it came, in any unit
  bool fixed = false;      // it is being fetched
};

/// The keys to remove, so that `bytes` more fit in `room`: first those that are not `wanted`, the
/// oldest first; where it is `urgent` then those that are, from the last one on. No more than are
/// needed. nullopt when that is not enough.
std::optional<std::vector<std::string>> evictions(const std::vector<CachedFile>& cached,
                                                  std::int64_t bytes,
                                                  std::int64_t room,
                                                  const std::vector<std::string>& wanted,
                                                  bool urgent);

}  // namespace dimred::stores
